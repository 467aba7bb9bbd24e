// A region, and a place with stock for the sales channel that Medusa made.
const flows = require("@medusajs/medusa/core-flows");

module.exports.default = async ({ container }) => {
  const run = async (workflow, input) => (await workflow(container).run({ input })).result;

  const [channel] = await container.resolve("sales_channel").listSalesChannels({});
  await run(flows.createRegionsWorkflow, {
    regions: [
      {
        name: "Britain",
        currency_code: "gbp",
        countries: ["gb"],
        payment_providers: ["pp_system_default"],
        automatic_taxes: false,
      },
    ],
  });
  const [location] = await run(flows.createStockLocationsWorkflow, {
    locations: [{ name: "Warehouse", address: { address_1: "1 Road", country_code: "GB" } }],
  });
  await run(flows.linkSalesChannelsToStockLocationWorkflow, {
    id: location.id,
    add: [channel.id],
  });
};
