const { bootstrap, LanguageCode } = require("@vendure/core");
const { populate } = require("@vendure/core/cli");
const { config } = require("./config");

const initial = {
  defaultLanguage: LanguageCode.en,
  defaultZone: "Europe",
  countries: [{ name: "United Kingdom", code: "GB", zone: "Europe" }],
  taxRates: [{ name: "Standard Tax", percentage: 20 }],
  shippingMethods: [{ name: "Standard Shipping", price: 500 }],
  paymentMethods: [
    {
      name: "Standard Payment",
      handler: {
        code: "dummy-payment-handler",
        arguments: [{ name: "automaticSettle", value: "true" }],
      },
    },
  ],
  collections: [],
};
const first = {
  ...config,
  dbConnectionOptions: { ...config.dbConnectionOptions, synchronize: true },
};

populate(() => bootstrap(first), initial)
  .then((app) => app.close())
  .then(() => process.exit(0))
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
