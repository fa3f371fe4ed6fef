import type {
  CanonicalEvent,
  Catalog,
  Clock,
  ConnectorCatalog,
  ConnectorDestination,
  Contract,
  ContractVerdict,
  ContractWorkers,
  Deduplicator,
  Destination,
  EventLog,
  HealthBoard,
  History,
  JsonObject,
  LiveTail,
  Logger,
  Metrics,
  NullMeaning,
  ProfileStore,
  RateLimiter,
  RecordProfileOperation,
  RequestDeletionNotice,
  Sandbox,
  TokenBuckets,
  VolumeCounters,
} from '@tributary/core';
import type { IdentityVerifier } from './authentication/id-tokens.ts';
import type { ChangeLimits } from './limits/change-limits.ts';
import type { LiveLimits } from './live-streams/stream-slots.ts';
import type { CrossOriginOptions } from './server/cross-origin.ts';

/** What callers may do in a stretch of time; what is absent is not limited. */
export interface Limits {
  /** Events, by write key. */
  readonly events?: TokenBuckets;
  /** Calls of everything else, by credential. */
  readonly calls?: RateLimiter;
}

/** What all requests together may hold, bytes. */
export interface MemoryBounds {
  /** Bodies, from their first byte to the answer. */
  readonly bodies?: number;
  /** The same of callers who have shown no credential. */
  readonly unauthenticatedBodies?: number;
  /** Answers whose clients have not read them yet. */
  readonly answers?: number;
}

/** Everything the gateway reaches the world by. */
export interface GatewayDependencies {
  readonly log: EventLog;
  readonly catalog: Catalog;
  readonly changeLimits: ChangeLimits;
  /** How long the catalog is believed while nothing is heard of the log, ms. Absent: for ever. */
  readonly trustCatalogForMs?: number;
  readonly counters: VolumeCounters;
  readonly history: History;
  /** To ask where a message is; the gateway claims none. */
  readonly deduplicator: Pick<Deduplicator, 'winner'>;
  /** Of re-evaluated events. */
  readonly reevaluations: Pick<Deduplicator, 'winner'>;
  /** Where the processes that deliver tell how destinations are doing. */
  readonly healthBoard: Pick<HealthBoard, 'read'>;
  readonly profiles: ProfileStore;
  /** Whether `null` in a write takes an attribute away. Default `unset`. */
  readonly profileNulls?: NullMeaning;
  readonly requestDeletionNotice: RequestDeletionNotice;
  readonly recordProfileOperation: RecordProfileOperation;
  readonly liveTail: LiveTail;
  readonly liveLimits: LiveLimits;
  readonly sandbox: Sandbox;
  readonly connectors: ConnectorCatalog;
  /** Compiles and evaluates contracts off this thread. */
  readonly contracts: ContractWorkers;
  /** Evaluates on this thread; undefined for a contract that takes longer than a few milliseconds to compile. */
  readonly evaluateLight: (contract: Contract, event: CanonicalEvent) => ContractVerdict | undefined;
  readonly identity: IdentityVerifier;
  /** Seals the secret settings of a destination; `secrets` names them. */
  seal(destinationId: string, settings: JsonObject, secrets: readonly string[]): JsonObject;
  /** The destination with its secrets opened, to test its connection. Throws when no key opens them. */
  unseal(destination: Destination): ConnectorDestination;
  readonly random: (bytes: number) => Uint8Array;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Received topics the operator declared beyond the two standing ones. */
  readonly dedicatedTopics: readonly string[];
  /** The organizations and workspaces, by id, that a declared topic is for; one that is missing here is for all. */
  readonly topicTenants: ReadonlyMap<string, ReadonlySet<string>>;
  readonly limits?: Limits;
  /** Bytes that clients may make the gateway hold. Default: parts of the heap. */
  readonly memory?: MemoryBounds;
  /** Origin at which browsers reach the gateway. Absent: the scheme and host of each request. */
  readonly publicUrl?: string;
  /** Which pages of other origins browsers let call. */
  readonly crossOrigin?: CrossOriginOptions;
}
