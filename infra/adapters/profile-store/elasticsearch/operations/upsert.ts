import {
  applyWrite,
  chargeOf,
  forgetDeletionsBefore,
  type Identity,
  identitiesToLookUp,
  identityHash,
  leftOutOf,
  linkingOf,
  type Profile,
  type ProfileChange,
  type ProfileWrite,
  type ProfileWriteOutcome,
} from '@tributary/core';
import { CONFLICT, type Conflict, type OperationContext } from './context.ts';
import { attemptDetach } from './split.ts';
import { holds, View } from './view.ts';
import { planWrite, type WritePlan } from './write-plan.ts';
import { readIdentityClaims, releaseIdentityClaims, WriteSteps } from './write-steps.ts';

/**
 * One attempt to carry out the first write, together with the writes behind it that concern the same profile only.
 * Returns the outcomes of the writes that were carried out, or `CONFLICT`.
 */
export async function attemptUpsert(
  [write, ...others]: readonly [ProfileWrite, ...ProfileWrite[]],
  context: OperationContext,
): Promise<WriteGroup['outcomes'] | Conflict> {
  const { clock, documents, durable, locations, newUcid, retentionMs } = context;

  // Read the identity claims of the identities and the profiles that they lead to.
  const identities = identitiesToLookUp(write).map((identity) => ({
    identity,
    hash: identityHash(write, identity),
  }));
  const view = new View(documents, locations);
  await view.load(identities, write.ucid === undefined ? [] : [write.ucid]);

  // Decide all steps. A refusal, and every identity left out, must rest on durable documents.
  const now = clock();
  const plan = planWrite(
    { write, identities, now, freshUcid: newUcid(), forgetBefore: forgetDeletionsBefore(now, retentionMs) },
    view,
  );
  if (plan.kind === 'detach') {
    await attemptDetach({ ...plan, cause: 'event' }, view, context);
    return CONFLICT;
  }
  const read = charactersRead(plan);
  context.charge(write.org, read);
  if (plan.kind === 'refused')
    return (await durable.ensureDurable(plan.because)) === CONFLICT
      ? CONFLICT
      : [{ ...plan.outcome, ...chargeOf(read) }];
  if ((await durable.ensureDurable(plan.leftOutOwners)) === CONFLICT) return CONFLICT;

  // Fence out concurrent operations; then point the identity claims to the profile, and freeze the profiles that it absorbs.
  const steps = new WriteSteps(context, view);
  if (!(await steps.fence(plan.fences, write))) return CONFLICT;
  if (!(await steps.claimIdentitiesAndFreeze(plan))) return CONFLICT;

  // Commit: one compare-and-set of the profile, with the waiting writes that concern it. If nothing changes, the profile
  // that the answer shows is made durable instead.
  const { ucid, document, deletions } = plan;
  const { profile, text, change, dropped, outcomes } = combine(plan, others, now, read);
  if (change === undefined) {
    if (document !== undefined && (await durable.ensureOneDurable(ucid, document)) === CONFLICT)
      return CONFLICT;
    for (const { hash } of plan.held) view.remember(hash, ucid);
    return outcomes;
  }
  const droppedIdentityClaims = await readIdentityClaims(
    dropped.map((identity) => identityHash(write, identity)),
    context,
  );
  if (!(await steps.commit({ document, deletions, profile, text, change }))) return CONFLICT;
  context.charge(write.org, text.length);

  // Tidy up in the background. It is optional: the sweeper does it if this process dies.
  for (const { hash } of plan.held) view.remember(hash, ucid);
  if (plan.joining.length > 0) context.background(steps.tidyMerge(plan.joining, ucid));
  releaseIdentityClaims(droppedIdentityClaims, { profile, deletions }, context);
  return outcomes;
}

/** Bounds the work of one group: the JSON of its profiles, characters. It blocks the event loop while it is made. */
const MAX_CHARACTERS = 1024 * 1024;

/** Writes to one profile, applied one after the other and committed together. */
interface WriteGroup {
  /** Outcomes of the planned write and the first of the others. The writes beyond need plans of their own. */
  readonly outcomes: readonly [ProfileWriteOutcome, ...ProfileWriteOutcome[]];
  readonly profile: Profile;
  /** The JSON of `profile`. */
  readonly text: string;
  /** Absent if no write changed anything. */
  readonly change?: ProfileChange;
  /** Identities that the profile has no room for. */
  readonly dropped: readonly Identity[];
}

/** The planned write, combined with the following ones for as long as they concern nothing but the planned profile. */
function combine(
  { applied, leftOut, deletions }: Extract<WritePlan, { kind: 'write' }>,
  others: readonly ProfileWrite[],
  now: number,
  read: number,
): WriteGroup {
  const outcomes: ProfileWriteOutcome[] = [];
  let latest = applied;
  const dropped = [...applied.dropped];
  const hasNoDeletions = Object.keys(deletions).length === 0;
  let characters = 0;
  for (const write of others) {
    const size = latest.kind === 'changed' ? latest.text.length : read;
    characters += size;
    if (!hasNoDeletions || characters > MAX_CHARACTERS || !concernsOnly(write, latest.profile)) break;
    const { profile } = latest;
    const linking = linkingOf(write, {
      owners: write.identities.map(() => ({ kind: 'live', profile })),
      named: write.ucid === undefined ? undefined : profile,
    });
    if (linking.kind !== 'linked' || linking.leftOut.length > 0) break;
    const next = applyWrite([profile], linking.identities, write, now);
    const charged = chargeOf(size, next.kind === 'changed' ? next.text.length : 0);
    if (next.kind === 'refused') {
      outcomes.push({ ...next, ...charged });
      continue;
    }
    dropped.push(...next.dropped);
    const leftOut = leftOutOf(linking, write, next.dropped);
    outcomes.push({ kind: 'written', profile: next.profile, leftOut, ...charged });
    if (next.kind === 'changed') latest = { ...next, change: joined(latest, next.change) };
  }
  const written = applied.kind === 'changed' ? applied.text.length : 0;
  const first = { kind: 'written', profile: applied.profile, leftOut, ...chargeOf(read, written) } as const;
  return {
    outcomes: [first, ...outcomes],
    profile: latest.profile,
    dropped,
    ...(latest.kind === 'changed'
      ? { text: latest.text, change: latest.change }
      : { text: JSON.stringify(latest.profile) }),
  };
}

/** Characters of the documents that the plan rests on. */
function charactersRead(plan: Exclude<WritePlan, { kind: 'detach' }>): number {
  const roots = plan.kind === 'refused' ? plan.because : plan.leftOutOwners;
  const documents = new Map(
    roots.flatMap((root) => (root.kind === 'profile' ? [[root.ucid, root.document] as const] : [])),
  );
  if (plan.kind === 'write') {
    if (plan.document !== undefined) documents.set(plan.ucid, plan.document);
    for (const { ucid, document } of plan.joining) documents.set(ucid, document);
  }
  let characters = 0;
  for (const { stored } of documents.values()) characters += stored.source.body.length;
  return characters;
}

/** Whether the write concerns the profile and nothing else: no other owner, spelling or earlier name. */
function concernsOnly(
  { org, region, identities, ucid, previousIdentity, olderSpellings }: ProfileWrite,
  profile: Profile,
): boolean {
  return (
    previousIdentity === undefined &&
    olderSpellings === undefined &&
    org === profile.org &&
    region === profile.region &&
    (ucid === undefined || ucid === profile.ucid || profile.linked.includes(ucid)) &&
    identities.every((identity) => holds(profile, identity))
  );
}

/** Two changes in order as one: merges of the earlier one must not get lost. */
function joined(earlier: { kind: string; change?: ProfileChange }, later: ProfileChange): ProfileChange {
  return earlier.change === undefined || earlier.change.linked.length === 0
    ? later
    : { ...later, kind: 'merged', linked: [...earlier.change.linked, ...later.linked] };
}
