import type {
  BatchLimits,
  ConnectionTest,
  Connector,
  ConnectorDestination,
  Delivery,
  DeliveryResult,
  JsonObject,
} from '@tributary/core';
import { classifyOwnError, NOT_VALID, STOPPED, testResultOf } from '../failures.ts';
import type { ConnectorContext } from '../kind.ts';
import { type Deadline, Deadlines, untilAborted } from './deadlines.ts';
import { DestinationClients } from './destination-clients.ts';
import { type Part, partsOf } from './partial-batches.ts';

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
export interface ClientKind<Settings, Client extends { close(): Promise<void> }> {
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

/** The connector of such a kind, with the settings, batches, deadlines, failures, tests and close that all kinds share. */
export function createClientConnector<Settings, Client extends { close(): Promise<void> }>(
  { timeoutMs, clock }: ConnectorContext,
  kind: ClientKind<Settings, Client>,
): Connector {
  const open = async (destination: ConnectorDestination): Promise<Client> => {
    const read = kind.readSettings(destination.settings);
    if (read === undefined) throw new TypeError(NOT_VALID);
    return kind.open(read, destination);
  };
  const clientsOf = (maxKept: number) => new DestinationClients<Client>({ open, idleMs: IDLE_MS, maxKept });
  const clients = clientsOf(kind.maxClients);
  /** Clients of the connection tests under way. */
  const testClients = new Set<DestinationClients<Client>>();
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

  return {
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
      const settings = kind.readSettings(destination.settings);
      if (settings === undefined) return { ok: false, reason: NOT_VALID };
      if (closing !== undefined) return testResultOf(STOPPED);
      // A client of its own: no connection of the test is left when it returns.
      const own = clientsOf(1);
      testClients.add(own);
      try {
        const outcome = await call(own, destination, options, (client, made) =>
          kind.test(client, settings, made),
        );
        return 'done' in outcome ? outcome.done : testResultOf(outcome.failed);
      } finally {
        testClients.delete(own);
        await own.close();
      }
    },

    close() {
      closing ??= Promise.all([clients, ...testClients].map((open) => open.close())).then(() => undefined);
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
