/** The HTTP server of every role; a role without the API loads nothing else of the gateway. */

export { createServer, type ServerOptions } from './create-server.ts';
export { unknownPathsPlugin } from './unknown-paths.ts';
