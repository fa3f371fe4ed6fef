import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '@tributary/core';
import {
  createLogger,
  createMetrics,
  openDevIssuer,
  openGateway,
  prepareQuickstart,
  readConfig,
  startServer,
} from '@tributary/infra';

const WORKSPACE_ATTEMPTS = 10;

// A gateway without stages in its process, like `tributary gateway`, so that the figure is the gateway's own.
const config = readConfig({ TRIBUTARY_DEV_ISSUER: '1', PORT: '0', ...process.env });
const logger = createLogger(config.logLevel, { part: 'gateway' });
const metrics = createMetrics({ processMetrics: false });
const issuer = openDevIssuer(config);
const opened = await openGateway(config, [issuer.trusted], { logger, metrics });
await opened.dependencies.log.createTopics();
await opened.dependencies.catalog.catchUp(config.startTimeoutMs);
await opened.openProfiles();
const server = await startServer(config, opened.dependencies, {
  readiness: () => ({ ready: true, checks: {} }),
});
process.stdout.write(`${JSON.stringify({ url: server.url, ...(await firstWorkspace()) })}\n`);
process.once('SIGTERM', async () => {
  await server.app.close();
  await opened.close();
  process.exit(0);
});

/** A broker that has just created its topics may still be too busy to accept the first facts in time. */
async function firstWorkspace() {
  for (let attempt = 1; ; attempt++) {
    try {
      return await prepareQuickstart(server.app, opened.dependencies, issuer, config.dataFolder);
    } catch (error) {
      if (attempt === WORKSPACE_ATTEMPTS) throw error;
      logger.warn({ error: messageOf(error) }, 'the first workspace is tried again');
      await sleep(1_000);
    }
  }
}
