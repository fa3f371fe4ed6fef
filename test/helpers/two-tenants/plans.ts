import type { CredentialKind } from '@tributary/core';
import fc from 'fast-check';
import type { RouteOptions } from 'fastify';
import { credentialsOf, type Plan, type Slot, slotsOf } from './calls.ts';
import { KINDS, type Kind } from './tenant.ts';

/** The routes that can be called with foreign ids. */
export function attackable(routes: readonly RouteOptions[]): readonly RouteOptions[] {
  return routes.filter((route) => slotsOf(route).length > 0);
}

/** The ids of a kind that routes tell apart: those of API, write and client keys, and of members of either scope. */
const INDEXES: { readonly [kind in Kind]?: readonly number[] } = { keyId: [0, 1, 2], memberId: [0, 1] };

/**
 * Each route with an id of the fitting kind in each of its slots, one at a time, by the first `callers` kinds
 * of credential that may call it.
 */
export function sweep(routes: readonly RouteOptions[], callers: number): readonly Plan[] {
  let serial = 0;
  return attackable(routes).flatMap((route) =>
    slotsOf(route).flatMap((slot) => {
      const { kind = 'workspaceId' } = slot;
      return credentialsOf(route)
        .slice(0, callers)
        .flatMap((credential) =>
          (INDEXES[kind] ?? [0]).map((index): Plan => {
            const slots = [{ slot, foreign: { kind, index } }];
            return { route, credential, slots, headerFollows: true, serial: ++serial };
          }),
        );
    }),
  );
}

const CREDENTIALS: readonly CredentialKind[] = ['id_token', 'api_key', 'write_key', 'client_key'];
/** Serials of random calls begin behind those of the sweep. */
const RANDOM_SERIALS = 1_000_000;

/** Random calls: some slots of a route, ids of any kind, any credential. */
export function randomPlan(
  routes: readonly RouteOptions[],
  isAllowed: (plan: Plan) => boolean,
): fc.Arbitrary<Plan> {
  return fc
    .constantFrom(...attackable(routes))
    .chain((route) => {
      const slots = slotsOf(route);
      return fc.record({
        route: fc.constant(route),
        credential: fc.oneof(
          { weight: 4, arbitrary: fc.constantFrom(...credentialsOf(route)) },
          { weight: 1, arbitrary: fc.constantFrom(...CREDENTIALS) },
        ),
        slots: fc
          .subarray([...slots], { minLength: 1, maxLength: Math.min(3, slots.length) })
          .chain((chosen) => fc.tuple(...chosen.map(filled))),
        headerFollows: fc.boolean(),
        serial: fc.integer({ min: RANDOM_SERIALS, max: 2_000_000_000 }),
      });
    })
    .filter(isAllowed);
}

function filled(slot: Slot) {
  const kinds = slot.kind === undefined ? KINDS : [slot.kind];
  return fc.record({
    slot: fc.constant(slot),
    foreign: fc.record({
      kind: fc.oneof(
        { weight: 3, arbitrary: fc.constantFrom(...kinds) },
        { weight: 1, arbitrary: fc.constantFrom(...KINDS) },
      ),
      index: fc.nat({ max: 3 }),
    }),
  });
}
