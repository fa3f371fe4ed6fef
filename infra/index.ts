/** How the tests, the demo and the bench reach the runtime and the adapters. */

export { openRedisHealthBoard, openRedisProcessBoard } from './adapters/boards/redis/index.ts';
export { openSqliteHealthBoard, openSqliteProcessBoard } from './adapters/boards/sqlite/index.ts';
export {
  type LogCatalogOptions,
  openLogCatalog,
  type RewritableCatalog,
  type Rewritten,
} from './adapters/catalog/log/index.ts';
export { openRedisCounters } from './adapters/counters/redis/index.ts';
export { openSqliteCounters } from './adapters/counters/sqlite/index.ts';
export { openRedisDeduplicator } from './adapters/deduplicator/redis/index.ts';
export { openSqliteDeduplicator } from './adapters/deduplicator/sqlite/index.ts';
export { ElasticsearchConnection } from './adapters/elasticsearch/index.ts';
export {
  type KafkaConnection,
  type KafkaEventLogOptions,
  openKafkaEventLog,
  renewedTokens,
  requestToken,
} from './adapters/event-log/kafka/index.ts';
export { openSqliteEventLog, type SqliteEventLogOptions } from './adapters/event-log/sqlite/index.ts';
export {
  crashEntries,
  InFlightMemory,
  InFlightTable,
  type SlotName,
} from './adapters/event-log/stage-runner/index.ts';
export { GroupCommit } from './adapters/group-commit/group-commit.ts';
export { openElasticsearchHistory } from './adapters/history/elasticsearch/index.ts';
export { openSqliteHistory } from './adapters/history/sqlite/index.ts';
export {
  openInProcessLiveTail,
  openLinkedLiveTail,
} from './adapters/live-tail/in-process/index.ts';
export { openRedisLiveTail } from './adapters/live-tail/redis/index.ts';
export { openSmtpMailer, type SmtpMailerOptions } from './adapters/mailer/smtp/index.ts';
export { ElasticsearchDocuments } from './adapters/profile-store/elasticsearch/engine.ts';
export { openElasticsearchProfileStore } from './adapters/profile-store/elasticsearch/index.ts';
export { openSqliteProfileStore } from './adapters/profile-store/sqlite/index.ts';
export { openMemoryRateLimiter } from './adapters/rate-limiter/memory/index.ts';
export { openRedisRateLimiter } from './adapters/rate-limiter/redis/index.ts';
export { RedisConnection } from './adapters/redis/index.ts';
export { openIsolatedVmSandbox } from './adapters/sandbox/isolated-vm/index.ts';
export { openConfluentFraming } from './adapters/value-framing/confluent/index.ts';
/** Loaded when it is called: most tests run no command. */
export const runCli: typeof import('./runtime/cli.ts').runCli = async (args, environment) =>
  (await import('./runtime/cli.ts')).runCli(args, environment);
export { prepareQuickstart } from './runtime/commands/quickstart.ts';
export { readConfig } from './runtime/config/config.ts';
export {
  DEVELOPER,
  expectServer,
  openDevIssuer,
  openExistingIssuer,
  TokenRefused,
  testToken,
} from './runtime/issuer/dev-issuer.ts';
export { openOidcIssuers } from './runtime/issuer/oidc-issuers.ts';
export { createLogger } from './runtime/observability/logger.ts';
export { createMetrics } from './runtime/observability/metrics.ts';
export { reportErrors } from './runtime/process/lifecycle.ts';
export { adminPort, startAdminServer } from './runtime/server/admin-server.ts';
export { startServer } from './runtime/server/api-server.ts';
export { openGateway } from './runtime/wiring/gateway.ts';
export { checkStores } from './runtime/wiring/installation.ts';
export { configuredTopics, openCatalog, openEventLog } from './runtime/wiring/ports/event-log.ts';
export { confinementOf } from './runtime/wiring/ports/stores.ts';
export { openSecrets } from './runtime/wiring/secrets.ts';
