export type { KafkaConnection } from './client/connection.ts';
export { type KafkaEventLogOptions, type KafkaLog, openKafkaEventLog } from './event-log.ts';
export type { KnownPosition } from './positions/known-positions.ts';
export { positionsSpec } from './positions/recorded-positions.ts';
export { settingsOf } from './topic-settings.ts';
