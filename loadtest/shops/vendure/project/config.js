// The settings that Vendure's project generator writes, for PostgreSQL and production.
const { DefaultJobQueuePlugin, DefaultSearchPlugin, dummyPaymentHandler } = require("@vendure/core");

exports.config = {
  apiOptions: {
    hostname: "127.0.0.1",
    port: Number(process.env.PORT),
    adminApiPath: "admin-api",
    shopApiPath: "shop-api",
  },
  authOptions: {
    tokenMethod: ["bearer", "cookie"],
    superadminCredentials: { identifier: "superadmin", password: "flash-sale-proof" },
    cookieOptions: { secret: process.env.SECRET },
  },
  dbConnectionOptions: {
    type: "postgres",
    synchronize: false,
    host: process.env.DB_HOST,
    port: Number(process.env.DB_PORT),
    database: process.env.DB_NAME,
    username: process.env.DB_USER,
    password: process.env.DB_PASSWORD,
  },
  paymentOptions: { paymentMethodHandlers: [dummyPaymentHandler] },
  plugins: [
    DefaultJobQueuePlugin.init({ useDatabaseForBuffer: true }),
    DefaultSearchPlugin.init({ bufferUpdates: false, indexStockStatus: true }),
  ],
};
