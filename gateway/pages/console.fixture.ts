import { type Clock, NO_LOGGER } from '@tributary/core';
import type { FastifyInstance } from 'fastify';
import type { ConsoleOptions } from '../dependencies.ts';
import { errorsPlugin } from '../errors/error-handler.ts';
import { createServer, unknownPathsPlugin } from '../server/create-server.ts';
import { consoleRoutes } from './console.ts';

/** A server of the console alone. */
export async function openConsole(
  options: Partial<ConsoleOptions> & Pick<ConsoleOptions, 'folder'>,
  clock: Clock = Date.now,
): Promise<FastifyInstance> {
  const app = createServer();
  await app.register(errorsPlugin, { logger: NO_LOGGER });
  await app.register(unknownPathsPlugin);
  await app.register(consoleRoutes, { version: '1.2.3', issuers: [], ...options, clock });
  await app.ready();
  return app;
}
