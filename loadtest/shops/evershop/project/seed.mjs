// What `evershop install` does after its questions, and the setting for cash on delivery.
const shop = new URL("./node_modules/@evershop/evershop/dist/", import.meta.url);
const { migrate } = await import(new URL("bin/lib/bootstrap/migrate.js", shop));
const { getCoreModules } = await import(new URL("bin/lib/loadModules.js", shop));
const { hashPassword } = await import(new URL("lib/util/passwordHelper.js", shop));
const { pool } = await import(new URL("lib/postgres/connection.js", shop));

await pool.query(`CREATE TABLE IF NOT EXISTS admin_user (
  admin_user_id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  uuid UUID NOT NULL UNIQUE DEFAULT gen_random_uuid(),
  status boolean NOT NULL DEFAULT TRUE,
  email varchar NOT NULL UNIQUE,
  password varchar NOT NULL,
  full_name varchar,
  created_at timestamptz DEFAULT CURRENT_TIMESTAMP,
  updated_at timestamptz DEFAULT CURRENT_TIMESTAMP)`);
await migrate(getCoreModules());
await pool.query("INSERT INTO admin_user (email, password, full_name) VALUES ($1, $2, 'Admin')", [
  "admin@example.com",
  hashPassword("flash-sale-proof"),
]);
await pool.query("INSERT INTO setting (name, value) VALUES ('codPaymentStatus', '1')");
process.exit(0); // the migrations leave a connection open
