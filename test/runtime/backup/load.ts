import type { Client } from '../../helpers/client.ts';
import type { ProfileClient } from '../../helpers/profile-client.ts';

/** A call of the load: what it wrote, when it was sent, and when its answer had arrived. */
export interface Written {
  readonly id: string;
  readonly sentAt: number;
  readonly answeredAt: number | undefined;
}

export interface EventBody {
  readonly type: 'track' | 'identify';
  readonly message_id: string;
  readonly user_id: string;
  readonly timestamp: string;
  readonly event?: string;
  readonly traits?: { readonly n: number };
}

export interface Clients {
  readonly owner: Client;
  readonly producer: Client;
  readonly profiles: ProfileClient;
}

const WORKERS = 4;
/** Events of one user are sent one after the other, so the order of their log is that of `n`. */
const MAX_BATCH = 20;

/** Random writes of all kinds against a server that may be killed meanwhile. */
export class Load {
  /** Every event that was ever sent, in the order of sending, with the batch it was in. */
  readonly events: EventBody[] = [];
  readonly written = { events: [] as Written[], contracts: [] as Written[], profiles: [] as Written[] };
  #next = 0;
  #running = false;
  /** The share of contracts in all writes. */
  #contracts = 0;
  #ended: Promise<unknown> = Promise.resolve();

  /** `withContracts`: whether the load changes the catalog. */
  start(clients: Clients, withContracts = true): void {
    this.#running = true;
    this.#contracts = withContracts ? 0.05 : 0;
    this.#ended = Promise.all(Array.from({ length: WORKERS }, (_, worker) => this.#work(worker, clients)));
  }

  async stop(): Promise<void> {
    this.#running = false;
    await this.#ended;
  }

  async #work(worker: number, clients: Clients): Promise<void> {
    while (this.#running) {
      const dice = Math.random();
      if (dice < this.#contracts) await this.#contract(clients);
      else if (dice < 0.2) await this.#profile(clients);
      else await this.#events(worker, clients);
    }
  }

  async #events(worker: number, { producer }: Clients): Promise<void> {
    const batch = Array.from({ length: 1 + Math.floor(Math.random() * MAX_BATCH) }, () =>
      this.#event(worker),
    );
    this.events.push(...batch);
    await this.#note(
      this.written.events,
      batch.map(({ message_id }) => message_id),
      () => producer.post('./events/batch', { batch }),
    );
  }

  #event(worker: number): EventBody {
    const n = this.#next++;
    const common = { message_id: `m${n}`, user_id: `user-${worker}`, timestamp: timeOf(n) };
    return Math.random() < 0.3
      ? { type: 'identify', ...common, traits: { n } }
      : { type: 'track', ...common, event: 'Drilled' };
  }

  async #contract({ owner }: Clients): Promise<void> {
    const event_name = `Contracted ${this.#next++}`;
    await this.#note(this.written.contracts, [event_name], () =>
      owner.post('./event-contracts', {
        name: event_name,
        event_type: 'track',
        event_name,
        description: null,
        schema_definition: { properties: { total: { type: 'number', required: true } } },
        enforcement_mode: 'block',
        undeclared_fields: 'allow',
      }),
    );
  }

  async #profile({ profiles }: Clients): Promise<void> {
    const email = `person.${this.#next++}@example.com`;
    await this.#note(this.written.profiles, [email], () => profiles.write({ email }));
  }

  /** Whether a write that failed is there is open. A server that is killed answers no more: then the load ends. */
  async #note(list: Written[], ids: readonly string[], call: () => Promise<unknown>): Promise<void> {
    const sentAt = Date.now();
    const answeredAt = await call().then(
      () => Date.now(),
      (error: unknown) => {
        // `fetch` rejects with it where there was no answer.
        if (error instanceof TypeError) this.#running = false;
        return undefined;
      },
    );
    list.push(...ids.map((id) => ({ id, sentAt, answeredAt })));
  }
}

/** An event's own time, the same whenever it is sent again; in the past, so that it counts as it is. */
function timeOf(n: number): string {
  return new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString();
}

/** Ids that the state of a moment must contain (answered before it), and ids that it cannot contain (sent after it). */
export function around(written: readonly Written[], moment: number) {
  return {
    inside: written
      .filter(({ answeredAt }) => answeredAt !== undefined && answeredAt < moment)
      .map(({ id }) => id),
    outside: written.filter(({ sentAt }) => sentAt > moment).map(({ id }) => id),
  };
}
