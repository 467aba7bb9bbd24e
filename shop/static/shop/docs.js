// Swagger UI over the shop's own OpenAPI document.
const place = document.getElementById("swagger");
SwaggerUIBundle({
  url: place.dataset.description,
  domNode: place,
  deepLinking: false, // anchors on this page are problem codes
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  presets: [SwaggerUIBundle.presets.apis],
});
