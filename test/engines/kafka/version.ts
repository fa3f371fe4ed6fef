export const KAFKA_VERSION = '4.1.1';
