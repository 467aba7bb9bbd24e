// Stripe's form on the payment page. Stripe's script asks the buyer's bank where needed, and sends
// the buyer to the order's page; what came of it, the shop hears from Stripe.

const form = document.getElementById("payment-form");
const error = document.getElementById("payment-error");
const button = form.querySelector("button");
const stripe = Stripe(form.dataset.key, { locale: document.documentElement.lang.slice(0, 2) });
const elements = stripe.elements({ clientSecret: form.dataset.secret });
elements.create("payment").mount("#payment-element");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  error.hidden = true;
  const answer = await stripe.confirmPayment({
    elements,
    confirmParams: { return_url: form.dataset.return },
  });
  // Only after an error: else the buyer has left this page.
  error.textContent = answer.error.message;
  error.hidden = false;
  button.disabled = false;
});
