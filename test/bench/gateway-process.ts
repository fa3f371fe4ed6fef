import {
  createLogger,
  createMetrics,
  openDevIssuer,
  openGateway,
  prepareQuickstart,
  readConfig,
  startServer,
} from '@tributary/infra';

// A gateway alone, as `tributary gateway` is: no stages beside it, so that the figure is the gateway's own.
const config = readConfig({ TRIBUTARY_DEV_ISSUER: '1', PORT: '0', ...process.env });
const logger = createLogger(config.logLevel, { part: 'gateway' });
const metrics = createMetrics({ processFigures: false });
const issuer = openDevIssuer(config);
const addedCommitMs = Number(process.env.TRIBUTARY_TEST_ADDED_COMMIT_MS ?? 0);
const opened = await openGateway(config, [issuer.trusted], { logger, metrics, addedCommitMs });
await opened.dependencies.log.createTopics();
await opened.dependencies.catalog.catchUp(config.startTimeout);
const server = await startServer(config, opened.dependencies, {
  readiness: () => ({ ready: true, checks: {} }),
  snapshots: async () => [],
});
const quickstart = await prepareQuickstart(server.app, opened.dependencies, issuer, config.dataFolder);
process.stdout.write(`${JSON.stringify({ url: server.url, ...quickstart })}\n`);
process.once('SIGTERM', async () => {
  await server.app.close();
  await opened.close();
  process.exit(0);
});
