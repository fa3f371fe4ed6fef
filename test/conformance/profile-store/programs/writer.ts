/** A process of writers, for the suite: `writer.ts <harness module> <settings> <task as JSON>`. */
import { setTimeout as pause } from 'node:timers/promises';
import { type ProfileScope, type ProfileStore, TributaryError } from '@tributary/core';
import { tell } from '../../../helpers/child.ts';
import type { ProfileStoreHarness } from '../suite/harness.ts';
import { isMoving, type Operation, operationOf, type Traffic } from '../traffic/operations.ts';

/** Each writer does operations from `from` up to `to`, one after the other. */
export interface WritersTask {
  readonly traffic: Traffic;
  readonly writers: readonly { readonly writer: number; readonly from: number; readonly to: number }[];
  /** Whether a concurrent deletion by another writer may explain that a write is not visible. */
  readonly seesItsWrites: boolean;
}

export type WriterLine =
  | {
      readonly kind: 'written';
      readonly writer: number;
      readonly n: number;
      readonly ucid: string;
      readonly leftOut: number;
    }
  | {
      readonly kind: 'deleted';
      readonly writer: number;
      readonly n: number;
      readonly ucids: readonly string[];
    }
  | {
      readonly kind: 'published';
      readonly change: string;
      readonly ucid: string;
      readonly version: number;
      readonly linked: readonly string[];
    }
  | { readonly kind: 'unlinked'; readonly writer: number; readonly n: number }
  /** `outcome`: `split`, the reason it was refused, or `none` where the writer had no ucid to split. */
  | { readonly kind: 'split'; readonly writer: number; readonly n: number; readonly outcome: string }
  /** With splits and unlinks: the write is attempted, perhaps again after a restart. */
  | { readonly kind: 'begun'; readonly writer: number; readonly n: number }
  /** A promise that a writer saw broken. */
  | { readonly kind: 'broken'; readonly what: string };

const say = (line: WriterLine) => tell(line);

/** Ucids that answers to writers of this process reported as merged into others, the newest last. */
const linkedUcids: string[] = [];
const MOST_LINKED = 20;

async function work(store: ProfileStore, { traffic, writers, seesItsWrites }: WritersTask): Promise<void> {
  await Promise.all(
    writers.map(async ({ writer, from, to }) => {
      for (let n = from; n < to; n++) {
        const operation = operationOf(traffic, writer, n);
        await untilAnswered(() => {
          if (operation.kind === 'write' && isMoving(traffic)) say({ kind: 'begun', writer, n });
          return carryOut(store, operation, writer, n, seesItsWrites, traffic.scope);
        });
      }
    }),
  );
}

async function carryOut(
  store: ProfileStore,
  operation: Operation,
  writer: number,
  n: number,
  seesItsWrites: boolean,
  scope: ProfileScope,
): Promise<void> {
  if (operation.kind === 'delete') {
    const { deleted } = await store.delete(operation.deletion);
    say({ kind: 'deleted', writer, n, ucids: deleted });
    return;
  }
  if (operation.kind === 'unlink') {
    await store.unlink(operation.unlink);
    say({ kind: 'unlinked', writer, n });
    return;
  }
  if (operation.kind === 'split') {
    const ucid = linkedUcids[operation.which % Math.max(1, linkedUcids.length)];
    const outcome = ucid === undefined ? undefined : await store.split({ ...scope, ucid });
    const told = outcome?.kind === 'refused' ? outcome.reason : (outcome?.kind ?? 'none');
    say({ kind: 'split', writer, n, outcome: told });
    return;
  }
  const { write, id } = operation;
  const outcome = await store.upsert(write);
  if (outcome.kind === 'refused') {
    say({ kind: 'broken', what: `${id} was refused: ${outcome.reason}` });
    return;
  }
  const { profile, leftOut } = outcome;
  linkedUcids.push(...profile.linked.filter((ucid) => !linkedUcids.includes(ucid)));
  linkedUcids.splice(0, linkedUcids.length - MOST_LINKED);
  if (seesItsWrites && n % 4 === 0) {
    const [identity] = write.identities;
    const { org, region } = write;
    const found = await store.search({
      org,
      regions: [region],
      identities: identity ? [identity] : [],
      ucids: [],
    });
    const [seen] = found;
    if (found.length !== 1 || seen === undefined)
      say({ kind: 'broken', what: `${id} found ${found.length} profiles right after it` });
    else if (seen.ucid === profile.ucid && seen.version < profile.version)
      say({
        kind: 'broken',
        what: `${id} was answered with ${profile.version} and then saw ${seen.version}`,
      });
    else if (seen.ucid !== profile.ucid && !seen.linked.includes(profile.ucid))
      say({ kind: 'broken', what: `${id} is of ${profile.ucid}, but ${seen.ucid} was found` });
  }
  say({ kind: 'written', writer, n, ucid: profile.ucid, leftOut: leftOut.length });
}

/** An engine that does not answer may have carried out the operation, so every operation may be repeated. */
async function untilAnswered(attempt: () => Promise<void>): Promise<void> {
  while (true) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (!(error instanceof TributaryError && error.retryable)) throw error;
      await pause(20 + Math.random() * 50);
    }
  }
}

if (process.argv[1] === import.meta.filename) {
  const [module = '', settings = '', task = '{}'] = process.argv.slice(2);
  const { harness } = (await import(module)) as { harness: ProfileStoreHarness };
  const store = await harness.open(settings, {
    tidyEveryMs: 250,
    async publish(changes) {
      for (const { kind, ucid, version, linked } of changes)
        say({ kind: 'published', change: kind, ucid, version, linked });
    },
  });
  await work(store, JSON.parse(task) as WritersTask);
  await store.close();
}
