import { elasticsearchEngine } from './elasticsearch/index.ts';
import { kafkaEngine } from './kafka/index.ts';
import type { Machine } from './machine.ts';
import { postgresEngine } from './postgres/index.ts';
import { redisEngine } from './redis/index.ts';
import { schemaRegistryEngine } from './schema-registry/index.ts';

export { type Engine, EngineFailed, EngineMissing, type RunningEngine, type StartOptions } from './engine.ts';
export { startKafkaCluster } from './kafka/cluster.ts';
export type { KafkaOptions, RunningKafka } from './kafka/index.ts';
export { kafkaProgram } from './kafka/native.ts';
export type { KafkaSecurity, KafkaUser, SaslMechanism } from './kafka/secured-listeners.ts';
export { describeMachine, type Machine } from './machine.ts';
export type { RedisOptions } from './redis/index.ts';

/**
 * Every engine of the cluster wiring, and those used to test destinations, in the form that this machine can
 * run.
 */
export function enginesOf(machine: Machine) {
  return {
    kafka: kafkaEngine(machine),
    redis: redisEngine(machine),
    elasticsearch: elasticsearchEngine(machine),
    schemaRegistry: schemaRegistryEngine(machine),
    postgres: postgresEngine(machine),
  };
}
