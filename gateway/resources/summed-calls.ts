import { type AuditedCalls, iso, messageOf, newId, type SummedCall } from '@tributary/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { authorOf } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';

const MINUTE_MS = 60_000;
const MAX_IDS = 20;

interface Scope {
  readonly scope_id: string;
  readonly organization_id: string;
}

type Sums = { -readonly [Name in keyof AuditedCalls]: AuditedCalls[Name] } & { ids: string[] };

interface Tally {
  readonly sums: Sums;
  readonly begun: Promise<void>;
  readonly timer: NodeJS.Timeout;
}

export type NoteChanged = (ids: readonly string[], changed?: number) => void;

/**
 * Audits calls of which callers make many: one entry for each caller, kind of call and minute (`AuditedCalls`). The record of
 * the first call is made before the change; the sums follow at the end of the minute, and are lost if the
 * process dies before. Changes of a call after its minute are not in them.
 */
export class SummedCalls {
  readonly #dependencies: Pick<GatewayDependencies, 'recordProfileOperation' | 'clock' | 'logger'>;
  readonly #open = new Map<string, Tally>();

  constructor(app: FastifyInstance, dependencies: GatewayDependencies) {
    this.#dependencies = dependencies;
    app.addHook('preClose', async () => {
      await Promise.all([...this.#open.keys()].map((name) => this.#end(name)));
    });
  }

  /**
   * Counts a call. Resolves once its record is durable, `Unavailable` when that is not known; then the call is not to be
   * made.
   */
  async count(request: FastifyRequest, call: SummedCall, scope: Scope): Promise<NoteChanged> {
    const { tally, noteChanged } = this.#counted(request, call, scope);
    await tally.begun;
    return noteChanged;
  }

  /** The same for calls that do not need the log and do not wait for it: a record that fails is logged. */
  countSoon(request: FastifyRequest, call: SummedCall, scope: Scope): NoteChanged {
    const { tally, noteChanged } = this.#counted(request, call, scope);
    tally.begun.catch((error: unknown) => this.#warn(tally.sums, error));
    return noteChanged;
  }

  #counted(request: FastifyRequest, { name, entity }: SummedCall, scope: Scope) {
    const by = authorOf(request.caller);
    const key = `${scope.scope_id} ${name} ${by}`;
    const tally = this.#open.get(key) ?? this.#begin(key, request, { ...scope, name, entity, by });
    const { sums } = tally;
    sums.calls += 1;
    const noteChanged: NoteChanged = (ids, changed = ids.length) => {
      sums.changed += changed;
      for (const id of ids) if (sums.ids.length < MAX_IDS && !sums.ids.includes(id)) sums.ids.push(id);
    };
    return { tally, noteChanged };
  }

  #begin(
    key: string,
    request: FastifyRequest,
    of: Scope & Pick<AuditedCalls, 'name' | 'entity' | 'by'>,
  ): Tally {
    const { recordProfileOperation: record, clock } = this.#dependencies;
    const from = { address: request.clientAddress.text, request_id: request.id };
    const first = { kind: 'calls', id: newId(), ...of, at: iso(clock()), from, until: null } as const;
    const sums: Sums = { ...first, calls: 0, changed: 0, ids: [] };
    const begun = record({ ...first, calls: 1, changed: 0, ids: [] });
    const tally = { sums, begun, timer: setTimeout(() => void this.#end(key), MINUTE_MS).unref() };
    this.#open.set(key, tally);
    begun.catch(() => {
      // The next call makes a record of its own.
      if (this.#open.get(key) !== tally) return;
      clearTimeout(tally.timer);
      this.#open.delete(key);
    });
    return tally;
  }

  async #end(key: string): Promise<void> {
    const tally = this.#open.get(key);
    if (tally === undefined) return;
    clearTimeout(tally.timer);
    this.#open.delete(key);
    const { recordProfileOperation: record, clock } = this.#dependencies;
    await record({ ...tally.sums, until: iso(clock()) }).catch((error: unknown) =>
      this.#warn(tally.sums, error),
    );
  }

  #warn({ id, name, calls }: Sums, error: unknown): void {
    this.#dependencies.logger.warn(
      { id, action: name, calls, error: messageOf(error) },
      'calls are not recorded for the audit log',
    );
  }
}
