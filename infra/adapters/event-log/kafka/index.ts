export type { KafkaConnection } from './client/connection.ts';
export { type KafkaEventLogOptions, openKafkaEventLog } from './event-log.ts';
