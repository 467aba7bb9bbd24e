const cluster = require("node:cluster");
const { bootstrap } = require("@vendure/core");
const { config } = require("./config");

const processes = Number(process.env.PROCESSES);
if (cluster.isPrimary && processes > 1) {
  for (let number = 0; number < processes; number++) cluster.fork();
} else {
  bootstrap(config).catch((error) => {
    console.error(error);
    process.exit(1);
  });
}
