export type { KafkaConnection } from './client/brokers.ts';
export { KafkaClient } from './client/client.ts';
export { renewedTokens, requestToken } from './client/sasl.ts';
export { type KafkaEventLogOptions, type KafkaLog, openKafkaEventLog } from './event-log.ts';
export { LogImport, OffsetTaken } from './log-import.ts';
export type { KnownPosition } from './positions.ts';
export { POSITIONS_TOPIC, positionsSpec, settingsOf } from './topics.ts';
