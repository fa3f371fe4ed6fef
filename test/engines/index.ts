import { clickhouseEngine } from './clickhouse.ts';
import { elasticsearchEngine } from './elasticsearch.ts';
import { kafkaEngine } from './kafka.ts';
import type { Machine } from './machine.ts';
import { postgresEngine } from './postgres.ts';
import { redisEngine } from './redis.ts';
import { schemaRegistryEngine } from './schema-registry.ts';

export { type Engine, EngineFailed, EngineMissing, type RunningEngine, type StartOptions } from './engine.ts';
export {
  type KafkaOptions,
  type KafkaSecurity,
  type KafkaUser,
  kafkaProgram,
  type RunningKafka,
  type SaslMechanism,
  startKafkaCluster,
} from './kafka.ts';
export { describeMachine, type Machine } from './machine.ts';
export type { RedisOptions } from './redis.ts';

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
    clickhouse: clickhouseEngine(machine),
  };
}
