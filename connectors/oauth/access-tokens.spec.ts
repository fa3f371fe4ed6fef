import { setImmediate } from 'node:timers/promises';
import {
  type Access,
  applyFact,
  CatalogState,
  type Destination,
  type Fact,
  type GrantResult,
  iso,
  NO_LOGGER,
  type ServiceTokens,
  Unavailable,
  type Verdict,
} from '@tributary/core';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { AccessTokens } from './access-tokens.ts';

/*
 * Destinations lost events for days elsewhere as two processes refreshed one token at a time, or used a new one that was stored
 * nowhere. Here two processes deliver to a service that gives a new refresh token each time, answers late, fails, loses answers,
 * and takes back its tokens, while processes are killed and the catalog does not answer.
 */

const ID = 'd1';
const LIFETIME_MS = 60_000;

/** How the service treats a request for tokens, in turn. `lost`: it grants tokens, and the answer does not arrive. */
type Treatment = 'granted' | 'late' | 'fails' | 'lost' | 'drops' | 'revoked';

/** A clock that goes on once nothing else can happen. */
class World {
  now = Date.parse('2026-01-01T00:00:00.000Z');
  readonly #sleeping: { readonly at: number; readonly wake: () => void }[] = [];

  wait = (ms: number) =>
    new Promise<void>((wake) => {
      this.#sleeping.push({ at: this.now + ms, wake });
    });

  async until(done: Promise<unknown>): Promise<void> {
    let isDone = false;
    const ended = done.finally(() => {
      isDone = true;
    });
    while (!isDone) {
      await setImmediate();
      this.#sleeping.sort((one, other) => one.at - other.at);
      const next = this.#sleeping.shift();
      if (next === undefined) continue;
      this.now = Math.max(this.now, next.at);
      next.wake();
    }
    await ended;
  }
}

/** Gives a new refresh token at each refresh, and takes none twice. */
class Service {
  readonly #world: World;
  readonly #treatments: readonly Treatment[];
  #asked = 0;
  #granted = 0;
  #current: ServiceTokens | undefined;
  #underWay = 0;
  mostAtOnce = 0;

  constructor(world: World, treatments: readonly Treatment[]) {
    this.#world = world;
    this.#treatments = treatments;
  }

  connect(): ServiceTokens {
    this.#granted += 1;
    const expiresAt = this.#world.now + LIFETIME_MS;
    this.#current = { access: `a${this.#granted}`, refresh: `r${this.#granted}`, expiresAt };
    return this.#current;
  }

  takes(access: string): boolean {
    return access === this.#current?.access && this.#world.now < (this.#current.expiresAt ?? 0);
  }

  isCurrent(refresh: string | undefined): boolean {
    return refresh !== undefined && refresh === this.#current?.refresh;
  }

  async refresh({ refresh }: ServiceTokens): Promise<GrantResult> {
    const treatment = this.#treatments[this.#asked++] ?? 'granted';
    this.#underWay += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#underWay);
    try {
      await this.#world.wait(treatment === 'late' ? 9_000 : 20);
      if (treatment === 'fails') return { kind: 'failed', reason: 'answered 500', afterMs: 3_000 };
      if (treatment === 'drops') return { kind: 'failed', reason: 'timed out' };
      if (treatment === 'revoked') this.#current = undefined;
      if (!this.isCurrent(refresh)) return { kind: 'refused', reason: 'answered 400: invalid_grant' };
      const tokens = this.connect();
      if (treatment === 'lost') return { kind: 'failed', reason: 'timed out' };
      return { kind: 'granted', grant: { tokens, settings: {} } };
    } finally {
      this.#underWay -= 1;
    }
  }
}

type Appended = 'answered' | 'not appended' | 'not answered';

/** The catalog of one process: a fold that follows the common log. `outages`: what happens to its appends, in turn. */
class ProcessCatalog {
  readonly #world: World;
  readonly #log: Fact[];
  readonly #outages: Appended[];
  readonly state = new CatalogState();
  #position = 0;
  isKilled = false;
  readonly killed = Promise.withResolvers<undefined>();

  constructor(world: World, log: Fact[], outages: Appended[]) {
    this.#world = world;
    this.#log = log;
    this.#outages = outages;
    this.follow();
  }

  kill(): void {
    this.isKilled = true;
    this.killed.resolve(undefined);
  }

  follow(): Verdict | undefined {
    let verdict: Verdict | undefined;
    while (this.#position < this.#log.length) {
      const fact = this.#log[this.#position];
      if (fact !== undefined) verdict = applyFact(this.state, fact, this.#position);
      this.#position += 1;
    }
    return verdict;
  }

  propose = async (fact: Fact): Promise<Verdict> => {
    await this.#world.wait(5);
    if (this.isKilled) return new Promise(() => undefined);
    const outage = this.#outages.shift() ?? 'answered';
    if (outage === 'not appended') throw new Unavailable('the log does not answer');
    this.#log.push(fact);
    await setImmediate();
    // The facts of other processes before this one are folded first.
    const verdict = this.follow();
    if (this.isKilled) return new Promise(() => undefined);
    if (outage === 'not answered' || verdict === undefined) throw new Unavailable('the log does not answer');
    return verdict;
  };
}

const ORIGIN = { v: 1, by: 'u1', from: { address: '', request_id: '' } } as const;

function created(at: string): Fact[] {
  const workspace = { id: 'w1', name: 'w', organization_id: 'o1', region: 'eu', status: 'active' } as const;
  const organization = { id: 'o1', name: 'o', regions: ['eu'], notification_email: null };
  const owner = { account_id: 'u1', organization_id: 'o1', role: 'owner' } as const;
  const destination = {
    id: ID,
    workspace_id: 'w1',
    name: 'd',
    type: 'segment-google-sheets',
    settings: {},
    enabled: true,
    paused: true,
    paused_because: { reason: 'not_connected', at },
    created_by: 'u1',
  } as const;
  return [
    { ...ORIGIN, at, type: 'workspace.created', entity: 'w1', data: { workspace, organization, owner } },
    { ...ORIGIN, at, type: 'destination.created', entity: ID, data: destination },
  ];
}

const seal = (tokens: ServiceTokens) => ({ $sealed: JSON.stringify(tokens) });
const opened = ({ connection }: Destination): ServiceTokens | undefined =>
  connection?.tokens && (JSON.parse(connection.tokens.$sealed) as ServiceTokens);

const treatments = fc.array(
  fc.constantFrom<Treatment>('granted', 'granted', 'late', 'fails', 'lost', 'drops', 'revoked'),
  { maxLength: 12 },
);
const outages = fc.array(
  fc.constantFrom<Appended>('answered', 'answered', 'answered', 'not appended', 'not answered'),
  { maxLength: 20 },
);

test('no event is lost, tokens are refreshed by one process at a time, and none that is used up is stored', async () => {
  await fc.assert(
    fc.asyncProperty(
      treatments,
      outages,
      fc.array(fc.integer({ min: 1, max: 200 }), { maxLength: 2 }),
      async (treated, appended, kills) => {
        const appends = [...appended];
        const world = new World();
        const service = new Service(world, treated);
        const log = created(iso(world.now));
        let isOver = false;

        const connect = () => {
          const at = iso(world.now);
          const data = { tokens: seal(service.connect()), settings: {} };
          log.push({ ...ORIGIN, at, type: 'destination.connected', entity: ID, data });
        };
        connect();

        const open = () => {
          const catalog = new ProcessCatalog(world, log, appends);
          const tokens = new AccessTokens({
            catalog,
            grants: {
              refresh: async (_, sent) => {
                const result = await service.refresh(sent);
                return catalog.isKilled ? new Promise(() => undefined) : result;
              },
            },
            openTokens: opened,
            sealTokens: (_, granted) => seal(granted),
            clock: () => world.now,
            wait: world.wait,
            logger: NO_LOGGER,
          });
          return { catalog, tokens };
        };
        const processes = [open(), open()];
        const current = (at: number) => processes[at] ?? open();

        /** Pauses as the deliver stage does. */
        const disconnect = async (at: number) => {
          const { catalog } = current(at);
          const turns = catalog.state.destination(ID)?.connection?.turns ?? 0;
          const change = { type: 'destination.disconnected', entity: ID, data: { refused: true } } as const;
          const fact: Fact = { ...ORIGIN, ...change, expected_version: turns, at: iso(world.now) };
          await catalog.propose(fact).catch(() => undefined);
        };

        /** A person who connects the destination whenever it is not. */
        const reconnect = async () => {
          for (const view = new ProcessCatalog(world, log, []); !isOver; await world.wait(2_000)) {
            view.follow();
            if (view.state.destination(ID)?.connection?.state === 'disconnected') connect();
          }
        };

        let delivered = 0;
        const deliver = async (at: number) => {
          for (let refused: string | undefined; ; ) {
            const { tokens, catalog } = current(at);
            catalog.follow();
            const access: Access | undefined = await Promise.race([
              tokens.access(ID, refused),
              catalog.killed.promise,
            ]);
            refused = undefined;
            if (access?.kind === 'token') {
              await world.wait(10);
              if (service.takes(access.token)) break;
              refused = access.token;
            } else if (access?.kind === 'refused') await disconnect(at);
            else await world.wait(access?.afterMs ?? 1_000);
          }
          delivered += 1;
        };

        const work = async (at: number) => {
          for (let event = 0; event < 4; event++) {
            await deliver(at);
            await world.wait(25_000);
          }
        };
        const killing = async () => {
          for (const [at, seconds] of kills.entries()) {
            await world.wait(seconds * 500);
            const killed = processes[at % 2];
            killed?.catalog.kill();
            processes[at % 2] = open();
          }
        };
        const all = Promise.all([work(0), work(1)]).finally(() => {
          isOver = true;
        });
        void killing();
        void reconnect();
        await world.until(all);

        expect(delivered).toBe(8);
        expect(service.mostAtOnce).toBeLessThanOrEqual(1);
        const state = new CatalogState();
        const stored: (string | undefined)[] = [];
        for (const [at, fact] of log.entries()) {
          const { applied } = applyFact(state, fact, at);
          const destination = state.destination(ID);
          if (applied && fact.type === 'connection.refreshed' && destination !== undefined)
            stored.push(opened(destination)?.refresh);
        }
        // None was stored again after the next one.
        expect(new Set(stored).size).toBe(stored.length);
        const last = state.destination(ID);
        if (last?.connection?.claim === undefined && !treated.includes('lost'))
          expect(service.isCurrent(last && opened(last)?.refresh)).toBe(true);
      },
    ),
    { numRuns: process.env.TRIBUTARY_TEST_LONG === undefined ? 15 : 1_000 },
  );
  // The long form takes minutes.
}, 900_000);

test('a token that the service refuses soon after it granted it is not refreshed again and again', async () => {
  const world = new World();
  const service = new Service(world, []);
  const log = created(iso(world.now));
  const data = { tokens: seal(service.connect()), settings: {} };
  log.push({ ...ORIGIN, at: iso(world.now), type: 'destination.connected', entity: ID, data });
  const catalog = new ProcessCatalog(world, log, []);
  let refreshes = 0;
  const tokens = new AccessTokens({
    catalog,
    grants: {
      refresh: (_, sent) => {
        refreshes += 1;
        return service.refresh(sent);
      },
    },
    openTokens: opened,
    sealTokens: (_, granted) => seal(granted),
    clock: () => world.now,
    wait: world.wait,
    logger: NO_LOGGER,
  });
  const refused = async (access: string) => {
    const asked = tokens.access(ID, access);
    await world.until(asked);
    return asked;
  };
  expect(await refused('a1')).toMatchObject({ token: 'a2' });
  expect(await refused('a2')).toMatchObject({ token: 'a2' });
  expect(await refused('a2')).toMatchObject({ token: 'a2' });
  expect(refreshes).toBe(1);
});
