
// Opens the player over the report, at the violation of the property whose button was clicked.
(() => {
  const dialog = document.getElementById("slow");
  let player = null;
  for (const button of document.querySelectorAll("[data-watch]")) {
    button.hidden = false; // without scripts there is nothing to watch
    button.addEventListener("click", () => {
      dialog.showModal();
      if (!player) {
        player = new ReplayPlayer(document.getElementById("player"));
        player.open(document.getElementById("replay").textContent);
      }
      player.showMark(button.dataset.watch);
    });
  }
  dialog.addEventListener("close", () => player.play(false));
})();
