export { renewedTokens, requestToken } from './client/bearer-tokens.ts';
export { Brokers } from './client/brokers.ts';
export { KafkaClient } from './client/client.ts';
export type { KafkaConnection } from './client/connection.ts';
export { FETCH, TXN_OFFSET_COMMIT } from './client/requests.ts';
export { type KafkaEventLogOptions, type KafkaLog, openKafkaEventLog } from './event-log.ts';
export { type ImportedRecord, LogImport, OffsetTaken } from './import/log-import.ts';
export { type KnownPosition, POSITIONS_TOPIC, positionsSpec } from './positions/recorded-positions.ts';
export { settingsOf } from './topics.ts';
