// Prints the file of its argument, how many entries its directory has, and its own name.
const fs = require("fs");
const path = require("path");

process.stdout.write(fs.readFileSync(process.argv[2]));
console.log(fs.readdirSync(path.dirname(process.argv[2])).length);
console.log(fs.realpathSync(__filename));
