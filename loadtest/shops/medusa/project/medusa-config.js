// What the deployment guide sets for production.
const { defineConfig } = require("@medusajs/framework/utils");

const { DATABASE_URL, REDIS_URL, LOCK } = process.env;
const provider = (id, options) => ({ resolve: `@medusajs/medusa/${id}`, id, is_default: true, options });
const locks = {
  memory: [],
  redis: [provider("locking-redis", { redisUrl: REDIS_URL })],
  postgres: [provider("locking-postgres", {})],
};

module.exports = defineConfig({
  admin: { disable: true },
  projectConfig: {
    databaseUrl: DATABASE_URL,
    redisUrl: REDIS_URL,
    databaseDriverOptions: { ssl: false, sslmode: "disable" },
    http: {
      storeCors: "http://127.0.0.1",
      adminCors: "http://127.0.0.1",
      authCors: "http://127.0.0.1",
      jwtSecret: process.env.JWT_SECRET,
      cookieSecret: process.env.COOKIE_SECRET,
    },
  },
  modules: [
    { resolve: "@medusajs/medusa/event-bus-redis", options: { redisUrl: REDIS_URL } },
    {
      resolve: "@medusajs/medusa/workflow-engine-redis",
      options: { redis: { redisUrl: REDIS_URL } },
    },
    {
      resolve: "@medusajs/medusa/caching",
      options: {
        providers: [
          {
            resolve: "@medusajs/caching-redis",
            id: "caching-redis",
            is_default: true,
            options: { redisUrl: REDIS_URL },
          },
        ],
      },
    },
    { resolve: "@medusajs/medusa/locking", options: { providers: locks[LOCK] } },
  ],
});
