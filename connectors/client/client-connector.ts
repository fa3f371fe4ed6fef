import type {
  BatchLimits,
  ConnectionTest,
  Connector,
  ConnectorDestination,
  Delivery,
  DeliveryResult,
  JsonObject,
} from '@tributary/core';
import { Closed, classifyOwnError, NOT_VALID, STOPPED, testResultOf } from '../failures.ts';
import type { ConnectorContext } from '../kind.ts';
import { type Deadline, Deadlines, untilAborted } from './deadlines.ts';

/** An unused client of a destination is kept this long, ms. */
const IDLE_MS = 3 * 60_000;
/** After this part of the timeout a refused batch is narrowed one by one: halves would settle nothing in time. */
const HALVING_PART = 1 / 4;

/** One call of a connector, with a client of its destination. */
export interface ConnectorCall {
  readonly destination: ConnectorDestination;
  /** Aborted when the call times out, and when the caller cancels it. */
  readonly deadline: Deadline;
  /** The trace context of a delivery whose trace is sampled. */
  traceparentOf(delivery: Delivery): string | undefined;
  /** Whether there is time left to narrow a refused batch by halves. */
  hasTimeToHalve(): boolean;
  /** The result of an error that the kind classifies; the next call begins with a new client. Rethrows any other error. */
  failed(error: unknown): DeliveryResult;
}

/** A kind of destination that is reached by a client; each destination has a client of its own. */
interface ClientKind<Settings, Client extends { close(): Promise<void> }> {
  /** Undefined for settings that the schema refuses. */
  readSettings(settings: JsonObject): Settings | undefined;
  limits(settings: Settings): BatchLimits;
  /** Loads the driver; opens no connection. */
  open(settings: Settings, destination: ConnectorDestination): Promise<Client>;
  /** Results in the order of the batch, which is within the limits. Rejects where one error is the result of all. */
  send(
    client: Client,
    settings: Settings,
    batch: Part,
    call: ConnectorCall,
  ): Promise<readonly DeliveryResult[]>;
  /** Rejects, as `send` does, when the destination is not reached. */
  test(client: Client, settings: Settings, call: ConnectorCall): Promise<ConnectionTest>;
  /** The result of a rejection; undefined for a bug of this code. */
  classifyFailure(error: unknown, client: Client): DeliveryResult | undefined;
  /** Whether the client stays usable after this error. */
  keepsClient(error: unknown): boolean;
  /** Unused clients that are kept at most. */
  readonly maxClients: number;
}

interface ClientConnector<Settings, Client> extends Connector {
  /** Runs `work` with a client of its own: no connection is left when it resolves. An error is classified. */
  once<T>(
    destination: ConnectorDestination,
    options: Parameters<Connector['deliver']>[2],
    work: (client: Client, settings: Settings, call: ConnectorCall) => Promise<T>,
  ): Promise<{ readonly done: T } | { readonly failed: DeliveryResult }>;
}

/** The connector of such a kind, with the settings, batches, deadlines, failures, tests and close that all kinds share. */
export function createClientConnector<Settings, Client extends { close(): Promise<void> }>(
  { timeoutMs, clock }: ConnectorContext,
  kind: ClientKind<Settings, Client>,
): ClientConnector<Settings, Client> {
  const open = async (destination: ConnectorDestination): Promise<Client> => {
    const read = kind.readSettings(destination.settings);
    if (read === undefined) throw new TypeError(NOT_VALID);
    return kind.open(read, destination);
  };
  const clientsOf = (maxKept: number) => new DestinationClients<Client>({ open, idleMs: IDLE_MS, maxKept });
  const clients = clientsOf(kind.maxClients);
  /** Clients of the calls under way that have one of their own. */
  const ownClients = new Set<DestinationClients<Client>>();
  const deadlines = new Deadlines(timeoutMs);
  let closing: Promise<void> | undefined;

  /** Runs `work` with a client under one deadline. A classified error is returned, any other one thrown. */
  async function call<T>(
    from: DestinationClients<Client>,
    destination: ConnectorDestination,
    { signal, traceparentOf = () => undefined }: Parameters<Connector['deliver']>[2],
    work: (client: Client, call: ConnectorCall) => Promise<T>,
  ): Promise<{ readonly done: T } | { readonly failed: DeliveryResult }> {
    const halvingEndsAt = clock() + timeoutMs * HALVING_PART;
    const deadline = deadlines.begin(signal);
    const begun: { call?: ConnectorCall } = {};
    try {
      deadline.throwIfAborted();
      const done = await from.use(destination, (client, discard) => {
        begun.call = {
          destination,
          deadline,
          traceparentOf,
          hasTimeToHalve: () => clock() < halvingEndsAt,
          failed(error) {
            const result = kind.classifyFailure(error, client);
            if (!kind.keepsClient(error)) discard();
            if (result === undefined) throw error;
            return result;
          },
        };
        deadline.throwIfAborted();
        return work(client, begun.call);
      });
      return { done };
    } catch (error) {
      return { failed: resultOf(error, begun.call) };
    } finally {
      deadlines.end(deadline);
    }
  }

  const once: ClientConnector<Settings, Client>['once'] = async (destination, options, work) => {
    const settings = kind.readSettings(destination.settings);
    if (settings === undefined) return { failed: { outcome: 'dead', reason: NOT_VALID, local: true } };
    if (closing !== undefined) return { failed: STOPPED };
    const own = clientsOf(1);
    ownClients.add(own);
    try {
      return await call(own, destination, options, (client, made) => work(client, settings, made));
    } finally {
      ownClients.delete(own);
      await own.close();
    }
  };

  return {
    once,

    batchLimits({ settings }) {
      const read = kind.readSettings(settings);
      return read === undefined ? { events: 1 } : kind.limits(read);
    },

    async deliver(destination, deliveries: readonly Delivery[], options) {
      const settings = kind.readSettings(destination.settings);
      if (settings === undefined) return deliveries.map(() => ({ outcome: 'dead', reason: NOT_VALID }));
      const batches = partsOf(deliveries, kind.limits(settings).events);
      const results: DeliveryResult[] = [];
      for (const batch of batches) {
        const outcome = await call(clients, destination, options, (client, made) =>
          kind.send(client, settings, batch, made),
        );
        const answers = 'done' in outcome ? outcome.done : batch.map(() => outcome.failed);
        if (batches.length === 1) return answers;
        results.push(...answers);
      }
      return results;
    },

    async test(destination, options) {
      const outcome = await once(destination, options, (client, settings, made) =>
        kind.test(client, settings, made),
      );
      return 'done' in outcome ? outcome.done : testResultOf(outcome.failed);
    },

    close() {
      closing ??= Promise.all([clients, ...ownClients].map((open) => open.close())).then(() => undefined);
      return closing;
    },
  };
}

/** The result of an error, classified by the call or as one of our own. Rethrows any other error. */
function resultOf(error: unknown, call: ConnectorCall | undefined): DeliveryResult {
  try {
    if (call !== undefined) return call.failed(error);
  } catch (unforeseen) {
    return resultOf(unforeseen, undefined);
  }
  const result = classifyOwnError(error);
  if (result === undefined) throw error;
  return result;
}

/** Whether a destination refuses any delivery; see `createProbe`. */
export type Probe = () => Promise<DeliveryResult | undefined>;

/**
 * Probes a destination at most once for a batch, by a request without deliveries: most refusals do not tell whether they are
 * about the destination or about a delivery. The result where the destination refuses any delivery; undefined where it
 * accepts them, so that some deliveries are to blame.
 */
export function createProbe(call: ConnectorCall, sendNothing: () => Promise<unknown>): Probe {
  let probed: Promise<DeliveryResult | undefined> | undefined;
  const probe = async () => {
    try {
      await untilAborted(sendNothing(), call.deadline);
      return undefined;
    } catch (error) {
      return call.failed(error);
    }
  };
  return () => {
    probed ??= probe();
    return probed;
  };
}

interface Closable {
  close(): Promise<void>;
}

interface DestinationClientsOptions<C extends Closable> {
  /** A client for one destination. It opens no connection before its first use. */
  open(destination: ConnectorDestination): Promise<C>;
  /** A client that was not used for so long is closed, ms. */
  readonly idleMs: number;
  /** Clients kept at most. Beyond it unused ones are closed; those in use are as many as the calls under way. */
  readonly maxKept: number;
}

/** Closing a client is not awaited for longer, ms. Its connections have ended by then. */
const CLOSED_WITHIN_MS = 1_000;

interface ClientEntry<C> {
  readonly client: Promise<C>;
  /** The client once the promise has resolved: saves a turn of the event loop for each call. */
  opened: C | undefined;
  readonly version: number;
  readonly idle: NodeJS.Timeout;
  readonly ended: PromiseWithResolvers<void>;
  users: number;
  /** Takes no further calls; closed once its last call has ended. */
  retired: boolean;
}

/**
 * One client per destination, so that no destination waits for a connection that another one holds, also where both
 * use the same host. New settings begin with new connections.
 *
 * A client is never closed while a call uses it. `close` waits for the calls under way, so each needs a deadline.
 */
export class DestinationClients<C extends Closable> {
  readonly #options: DestinationClientsOptions<C>;
  /** In the order of their last use, the earliest first. */
  readonly #kept = new Map<string, ClientEntry<C>>();
  readonly #ending = new Set<Promise<void>>();
  #closed = false;

  constructor(options: DestinationClientsOptions<C>) {
    this.#options = options;
  }

  /** Clients that take further calls. */
  get size(): number {
    return this.#kept.size;
  }

  /**
   * Runs `work` with the destination's client. Rejects with `Closed` after `close`. `discard` retires the client: calls
   * that use it continue, the next one begins with a new client.
   */
  async use<T>(
    destination: ConnectorDestination,
    work: (client: C, discard: () => void) => Promise<T>,
  ): Promise<T> {
    if (this.#closed) throw new Closed('closed');
    const entry = this.#entryFor(destination);
    const discard = () => this.#retire(destination.id, entry);
    entry.users += 1;
    try {
      return await work(entry.opened ?? (await this.#opened(entry, discard)), discard);
    } finally {
      entry.users -= 1;
      if (!entry.retired) entry.idle.refresh();
      else if (entry.users === 0) this.#end(entry);
    }
  }

  /** Resolves once every call under way has ended and every client is closed. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const [id, entry] of [...this.#kept]) this.#retire(id, entry);
    await Promise.all(this.#ending);
  }

  async #opened(entry: ClientEntry<C>, discard: () => void): Promise<C> {
    try {
      entry.opened = await entry.client;
      return entry.opened;
    } catch (error) {
      discard();
      throw error;
    }
  }

  #entryFor(destination: ConnectorDestination): ClientEntry<C> {
    const { id, version } = destination;
    const known = this.#kept.get(id);
    if (known?.version === version) {
      this.#kept.delete(id);
      this.#kept.set(id, known);
      return known;
    }
    if (known !== undefined) this.#retire(id, known);
    else this.#makeRoom();
    const entry: ClientEntry<C> = {
      client: this.#options.open(destination),
      opened: undefined,
      version,
      idle: setTimeout(() => this.#retireIdle(id, entry), this.#options.idleMs).unref(),
      ended: Promise.withResolvers(),
      users: 0,
      retired: false,
    };
    this.#kept.set(id, entry);
    return entry;
  }

  #makeRoom(): void {
    while (this.#kept.size >= this.#options.maxKept) {
      const longest = this.#unusedForTheLongest();
      if (longest === undefined) return;
      this.#retire(...longest);
    }
  }

  /** The clients before it are in use: no more than there are calls under way. */
  #unusedForTheLongest(): readonly [id: string, entry: ClientEntry<C>] | undefined {
    for (const entry of this.#kept) if (entry[1].users === 0) return entry;
    return undefined;
  }

  #retireIdle(id: string, entry: ClientEntry<C>): void {
    if (entry.users === 0) this.#retire(id, entry);
  }

  #retire(id: string, entry: ClientEntry<C>): void {
    if (entry.retired) return;
    entry.retired = true;
    clearTimeout(entry.idle);
    if (this.#kept.get(id) === entry) this.#kept.delete(id);
    const ended = entry.ended.promise.finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
    if (entry.users === 0) this.#end(entry);
  }

  /** A client whose opening failed has nothing to close; its calls were rejected with the error. */
  #end({ client, ended }: ClientEntry<C>): void {
    const closed = client.then(
      (opened) => closeInTime(opened),
      () => undefined,
    );
    closed.then(ended.resolve, ended.reject);
  }
}

/** Resolves after `CLOSED_WITHIN_MS` at the latest; rejects as the close does. */
async function closeInTime(client: Closable): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, CLOSED_WITHIN_MS);
  try {
    await Promise.race([client.close(), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** The deliveries of one request: at least one. */
export type Part = readonly [Delivery, ...Delivery[]];

/** The deliveries in order, in parts of `size` at most. */
export function partsOf(deliveries: readonly Delivery[], size: number): readonly Part[] {
  if (isPart(deliveries) && deliveries.length <= size) return [deliveries];
  const parts: Part[] = [];
  for (let at = 0; at < deliveries.length; at += size) {
    const part = deliveries.slice(at, at + size);
    if (isPart(part)) parts.push(part);
  }
  return parts;
}

function isPart(deliveries: readonly Delivery[]): deliveries is Part {
  return deliveries.length > 0;
}

/** The result of one request. */
export interface PartResult {
  readonly result: DeliveryResult;
  /**
   * Whether some deliveries of the part may have caused the refusal while others are fine, so that it is worth sending in
   * smaller parts. For a part of one: the refusal is about that delivery and not about the destination.
   */
  readonly mayBeSplit: boolean;
}

interface SendInPartsOptions {
  send(part: Part): Promise<PartResult>;
  /** Called at each refusal: whether there is time to continue by halves. Otherwise single deliveries are sent. */
  hasTimeToHalve(): boolean;
}

/**
 * After so many refusals in a row from the first request on, without a settled delivery, single deliveries from all over
 * the batch are tried: up to three guilty deliveries spoil fewer parts than that. After as many refused single deliveries
 * sending ends: a destination in trouble must not get hundreds of requests for one batch.
 */
const MAX_FRUITLESS = 7;

/**
 * Sends a batch and, where some of its deliveries may have caused a refusal, its parts, so that no delivery is dead or
 * delayed because of another one. Larger parts go first: one accepted request settles the most deliveries.
 *
 * Ends at the first retryable refusal that is about the destination as a whole; deliveries that were not sent by then are
 * retried. Returns a result for each delivery, in order.
 */
export async function sendInParts(
  batch: Part,
  { send, hasTimeToHalve }: SendInPartsOptions,
): Promise<readonly DeliveryResult[]> {
  const results = new Map<Delivery, DeliveryResult>();
  let notReached: DeliveryResult = { outcome: 'retry', reason: 'not reached' };
  let fruitless = 0;
  let areSpread = false;
  const parts = [batch];
  // Parts are appended during the iteration.
  for (const part of parts) {
    const { result, mayBeSplit } = await send(part);
    if (part.length > 1 && mayBeSplit) {
      parts.push(...partsOf(part, hasTimeToHalve() ? Math.ceil(part.length / 2) : 1));
    } else {
      if (part === batch) return batch.map(() => result);
      for (const delivery of part) results.set(delivery, result);
      if (result.outcome !== 'retry') fruitless = Number.NEGATIVE_INFINITY;
    }
    if (result.outcome !== 'retry') continue;
    fruitless += 1;
    if (mayBeSplit && fruitless < MAX_FRUITLESS) continue;
    if (mayBeSplit && !areSpread) {
      areSpread = true;
      fruitless = 0;
      const unsettled = parts.splice(parts.indexOf(part) + 1);
      const first = new Set(spread(unsettled.flat(), MAX_FRUITLESS));
      const rest = unsettled
        .map((some): readonly Delivery[] => some.filter((delivery) => !first.has(delivery)))
        .filter(isPart);
      parts.push(...partsOf([...first], 1), ...rest);
      continue;
    }
    const { afterMs, throttled } = result;
    notReached = {
      outcome: 'retry',
      reason: `not reached: ${result.reason}`,
      ...(afterMs === undefined ? {} : { afterMs }),
      ...(throttled === undefined ? {} : { throttled }),
    };
    break;
  }
  return batch.map((delivery) => results.get(delivery) ?? notReached);
}

/** At most `count` from all over the list. */
function spread(deliveries: readonly Delivery[], count: number): readonly Delivery[] {
  const stride = Math.max(1, Math.ceil(deliveries.length / count));
  return deliveries.filter((_delivery, at) => at % stride === 0);
}
