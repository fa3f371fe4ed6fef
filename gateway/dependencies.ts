import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type {
  Catalog,
  CatalogSource,
  Clock,
  ConfirmationClaim,
  ConnectorCatalog,
  ConnectorDestination,
  ContractEvaluator,
  Counters,
  Deduplicator,
  Destination,
  EventLog,
  HealthBoard,
  History,
  JsonObject,
  LiveTail,
  Logger,
  Metrics,
  NullHandling,
  ProfileBounds,
  ProfileStore,
  RateLimiter,
  RecordProfileOperation,
  RequestMail,
  Sandbox,
  Sealed,
  ServiceGrants,
  ServiceTokens,
  StorageBudgets,
  SystemView,
  TokenBuckets,
  Tracing,
} from '@tributary/core';
import type { IdentityVerifier } from './authentication/id-tokens.ts';
import type { ChangeLimits } from './limits/change-limits.ts';

export type Routes = FastifyPluginAsyncTypebox<GatewayDependencies>;

/** Rate limits; an absent one does not limit. */
export interface Limits {
  /** Events by write key. */
  readonly events?: TokenBuckets;
  /** All other calls, by credential. */
  readonly calls?: RateLimiter;
  /** Whether that holds for the client keys of the profile API, too. Default true. */
  readonly limitsClientKeys?: boolean;
}

/** Memory budgets of all requests together, bytes. */
export interface MemoryBounds {
  /** Bodies, from their first byte to the response. */
  readonly bodies?: number;
  /** Bodies of unauthenticated callers. */
  readonly unauthenticatedBodies?: number;
  /** Responses that their clients have not read yet. */
  readonly answers?: number;
}

export interface GatewayDependencies {
  readonly log: EventLog;
  readonly catalog: Catalog;
  readonly changeLimits: ChangeLimits;
  /** Whether processes of an older release may still run, which stop at facts that they do not know. Default: false. */
  isUpgradePending?(): boolean;
  /** How long the catalog is trusted without contact to the log, ms. Absent: for ever. */
  readonly trustCatalogForMs?: number;
  readonly counters: Counters;
  readonly history: History;
  /** Finds the position of a message; the gateway makes no dedupe claims. */
  readonly deduplicator: Pick<Deduplicator, 'winner'>;
  /** The dedupe claims of re-evaluated events. */
  readonly reevaluations: Pick<Deduplicator, 'winner'>;
  /** The health of destinations, as reported by the delivering processes. */
  readonly healthBoard: Pick<HealthBoard, 'read' | 'history'>;
  /** Stages, processes and engines, for operators. */
  readonly system: SystemView;
  /** The normalised e-mail addresses of operators. */
  readonly operators: ReadonlySet<string>;
  readonly profiles: ProfileStore;
  /** Whether `null` in a write removes an attribute. Default `unset`. */
  readonly profileNulls?: NullHandling;
  /** Bounds on the size of a profile. Absent: `DEFAULT_PROFILE_BOUNDS`. */
  readonly profileBounds?: ProfileBounds;
  readonly requestMail: RequestMail;
  /** Whether an address for notices has to be confirmed by a link. Default true. */
  readonly confirmsAddresses?: boolean;
  /** The claim of such a link's token; undefined where it was not signed by this installation, or has expired. */
  confirmationOf(token: string): ConfirmationClaim | undefined;
  /** Characters of large profiles that one organization may read and rewrite a second. Default: see `ProfileCharges`. */
  readonly largeProfileRate?: number;
  readonly recordProfileOperation: RecordProfileOperation;
  readonly liveTail: LiveTail;
  readonly liveLimits: LiveLimits;
  readonly sandbox: Sandbox;
  readonly connectors: ConnectorCatalog;
  readonly contracts: ContractEvaluator;
  readonly identity: IdentityVerifier;
  /** Seals the secret settings of a destination; `secrets` names them. */
  seal(destinationId: string, settings: JsonObject, secrets: readonly string[]): JsonObject;
  /** The destination with its secrets opened, to test its connection. Throws when no key opens them. */
  unseal(destination: Destination): ConnectorDestination;
  /** Requests for the tokens of destinations that are connected with a service. */
  readonly grants: ServiceGrants;
  sealTokens(destinationId: string, tokens: ServiceTokens): Sealed;
  /** Undefined for a destination that is not connected. Throws when no key opens its tokens. */
  openTokens(destination: Destination): ServiceTokens | undefined;
  /** A text about a connection that was begun, which only `openBegun` for the same destination reads. */
  sealBegun(destinationId: string, begun: JsonObject): string;
  openBegun(destinationId: string, text: string): JsonObject | undefined;
  sealWebhookSecret(sourceId: string, secret: string): Sealed;
  /** The secrets of the webhook of a source. Throws when no key opens one of them. */
  webhookSecrets(source: CatalogSource): readonly string[];
  readonly random: (bytes: number) => Uint8Array;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent: no spans are recorded. */
  readonly tracing?: Tracing | undefined;
  /** Received topics declared by the operator, beside one per environment. */
  readonly dedicatedTopics: readonly string[];
  /** The ids of the organizations and workspaces that may use a declared topic; absent for a topic of all tenants. */
  readonly topicTenants: ReadonlyMap<string, ReadonlySet<string>>;
  readonly limits?: Limits;
  /** Absent: no workspace has a budget of bytes. */
  readonly budgets?: StorageBudgets;
  /** Default: parts of the heap. */
  readonly memory?: MemoryBounds;
  /** Origin at which browsers reach the gateway. Absent: the scheme and host of each request. */
  readonly publicUrl?: string;
  /** Absent: the gateway serves no console. */
  readonly console?: ConsoleOptions;
  /** Absent: the gateway serves no documentation. */
  readonly guide?: GuideOptions;
  readonly crossOrigin?: CrossOriginOptions;
}

/** Open live streams of this gateway: of all, and of one workspace, organization and account. */
export interface LiveLimits {
  readonly streams: number;
  readonly workspaceStreams: number;
  readonly organizationStreams: number;
  /** Streams of an account and the API keys that it created. */
  readonly accountStreams: number;
  /** Interval of the comments that keep a connection alive, ms. Default 15,000. */
  readonly commentEveryMs?: number;
  /** How long a client may leave a full buffer unread before its connection is closed, ms. Default 60,000. */
  readonly stallTimeoutMs?: number;
}

/** Web origins, `*` for any; none when empty. */
export interface CrossOriginOptions {
  /** Origins that may send events. Default: any, as a page needs a write key, which browsers do not add themselves. */
  readonly ingestionOrigins?: readonly string[];
  /** Origins that may call everything else, the profile API included. Default: none. */
  readonly origins?: readonly string[];
}

/** An OpenID Connect issuer that people sign in with on the console. */
export interface SignInIssuer {
  readonly issuer: string;
  /** The client id of the console at the issuer, which is the audience of its ID tokens. */
  readonly clientId: string;
}

/** Options of the console, which the gateway serves at `/console/`. */
export interface ConsoleOptions {
  /** The folder of the built console. It may be built while the gateway runs. */
  readonly folder: string;
  readonly version: string;
  readonly issuers: readonly SignInIssuer[];
  /** Origins beside those of the issuers that the page calls to sign in: their discovered endpoints. */
  readonly endpointOrigins?: () => readonly string[];
  /** Signs in by the link that `tributary dev` prints. Absent: there is no such link. */
  readonly developmentLink?: DevelopmentLink;
}

/** The link that `tributary dev` prints: it signs a browser of this machine in without an issuer. */
export interface DevelopmentLink {
  /** In the fragment of the link; of this start of the server, and good once. */
  readonly secret: string;
  /** A new token for the person who started the server. */
  mint(): Promise<DevelopmentToken>;
}

export interface DevelopmentToken {
  readonly token: string;
  /** ISO 8601. */
  readonly expiresAt: string;
}

/** Options of the documentation, which the gateway serves at `/guide/`. */
export interface GuideOptions {
  /** The folder of the built documentation. It may be built while the gateway runs. */
  readonly folder: string;
}
