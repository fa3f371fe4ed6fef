import {
  type AppliedWrite,
  chargeOf,
  decideWrite,
  forgetDeletionsBefore,
  type Identity,
  type IdentityOwner,
  identitiesToLookUp,
  identityHash,
  type LeftOut,
  type Profile,
  type ProfileChange,
  type ProfileWrite,
  type ProfileWriteOutcome,
  type TakenPart,
} from '@tributary/core';
import {
  CONFLICT,
  type Conflict,
  documentIn,
  type HashedIdentity,
  holds,
  type OperationContext,
  ownerIn,
  type Root,
  View,
} from './context.ts';
import type { LiveDocument, RedirectDocument } from './documents.ts';
import { attemptDetach } from './removal.ts';
import {
  type Fence,
  fencesOfDeleted,
  fencesOfFrozen,
  type IdentityClaimStep,
  type Joining,
  readIdentityClaims,
  releaseIdentityClaims,
  WriteSteps,
  withMerges,
} from './write-steps.ts';

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
    await attemptDetach(plan, 'event', view, context);
    return CONFLICT;
  }
  const read = charactersRead(plan);
  context.charge(write.org, read);
  if (plan.kind === 'refused')
    return (await durable.ensureDurable(plan.because)) ? [{ ...plan.outcome, ...chargeOf(read) }] : CONFLICT;
  if (!(await durable.ensureDurable(plan.leftOutOwners))) return CONFLICT;

  // Fence out concurrent operations; then point the identity claims to the profile, and freeze the profiles that it absorbs.
  const steps = new WriteSteps(context, view);
  if (!(await steps.fence(plan.fences, write))) return CONFLICT;
  if (!(await steps.claimIdentitiesAndFreeze(plan))) return CONFLICT;

  // Commit: one compare-and-set of the profile, with the waiting writes that concern it. If nothing changes, the profile
  // that the answer shows is made durable instead.
  const { ucid, document, deletions } = plan;
  const { profile, text, change, dropped, outcomes } = combine(plan, others, now, read);
  if (change === undefined) {
    if (!(await durable.ensureDurable([document && { kind: 'profile', ucid, document }]))) return CONFLICT;
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
  if (plan.joining.length > 0)
    context.background(
      steps.tidyMerge(plan.joining, ucid),
      'a merge could not be tidied up; the sweeper will do it',
    );
  releaseIdentityClaims(droppedIdentityClaims, { profile, deletions }, context);
  return outcomes;
}

type WritePlan =
  | {
      readonly kind: 'write';
      readonly ucid: string;
      /** The document of the profile as it was read; undefined for a new profile. */
      readonly document: LiveDocument | RedirectDocument | undefined;
      readonly joining: readonly Joining[];
      readonly fences: readonly Fence[];
      readonly identityClaims: readonly IdentityClaimStep[];
      /** See `Content`. */
      readonly deletions: Readonly<Record<string, number>>;
      readonly applied: Exclude<AppliedWrite, { kind: 'refused' }>;
      readonly leftOut: readonly LeftOut[];
      /** The identities of the write that the profile has afterwards. */
      readonly held: readonly HashedIdentity[];
      /** Owners of the identities that were left out. The decision rests on them, so they must be durable. */
      readonly leftOutOwners: readonly Root[];
    }
  /** A part of the profile is somebody else's: split it off, then plan again. */
  | ({
      readonly kind: 'detach';
      readonly profile: Profile;
      readonly document: LiveDocument | RedirectDocument;
    } & TakenPart)
  | {
      readonly kind: 'refused';
      readonly outcome: Extract<ProfileWriteOutcome, { kind: 'refused' }>;
      readonly because: readonly Root[];
    };

interface PlannedWrite {
  readonly write: ProfileWrite;
  /** The write's `identitiesToLookUp`, in their order. */
  readonly identities: readonly HashedIdentity[];
  readonly now: number;
  /** The ucid of the profile, if the write creates one. */
  readonly freshUcid: string;
  /** Deletions before this time are ignored, epoch ms. */
  readonly forgetBefore: number;
}

/**
 * Decides all steps of a write from the documents that were read. Each step is a compare-and-set, so a plan made from
 * outdated documents ends in a conflict.
 */
function planWrite(planned: PlannedWrite, view: View): WritePlan {
  const { write, identities, now, freshUcid, forgetBefore } = planned;
  const found = identities.map((hashed): Found => {
    const root = view.rootOfIdentity(hashed.hash);
    return { ...hashed, root, deletedAt: deletedAtOf(hashed.hash, root, view, forgetBefore) };
  });
  const namedRoot = write.ucid === undefined ? undefined : view.rootOf(write.ucid);
  const named = namedRoot && (documentIn(namedRoot, write)?.content.profile ?? 'gone');
  const decision = decideWrite(
    write,
    { owners: found.map(ownerOf), named },
    now,
    (linked) => absentUcid(those(found, linked)) ?? freshUcid,
  );
  if (decision.kind === 'refused') {
    const because = [...found.map(({ root }) => root), namedRoot].flatMap((root) => root ?? []);
    return { kind: 'refused', outcome: decision, because };
  }
  if (decision.kind === 'detach')
    return { ...decision, document: view.contentDocument(decision.profile.ucid) };

  const { applied, leftOut, profiles } = decision;
  const { ucid } = applied.profile;
  const held = those(found, decision.held);
  const document = profiles.length === 0 ? undefined : view.contentDocument(ucid);
  const joining = profiles
    .slice(1)
    .map((other) => ({ ucid: other.ucid, document: view.contentDocument(other.ucid) }));
  const joined = new Set([ucid, ...joining.map((other) => other.ucid)]);
  const steps = held.flatMap((one) => identityClaimStepOf(one, { ucid, joined, view }));
  const documents = [...(document === undefined ? [] : [document]), ...joining.map((one) => one.document)];
  const linked = new Set(decision.linked);
  return {
    kind: 'write',
    ucid,
    document,
    joining,
    fences: distinct([
      ...steps.flatMap(({ fences }) => fences),
      ...documents.flatMap((one) => fencesOfFrozen(one, ucid, view)),
    ]),
    identityClaims: steps.map(({ step }) => step),
    deletions: deletionsOf(held, documents, forgetBefore),
    applied,
    leftOut,
    held,
    leftOutOwners: found.flatMap(({ identity, root }) =>
      linked.has(identity) || root === undefined ? [] : [root],
    ),
  };
}

/** The findings for some of the identities. */
function those(found: readonly Found[], identities: readonly Identity[]): readonly Found[] {
  const wanted = new Set(identities);
  return found.filter(({ identity }) => wanted.has(identity));
}

interface Found extends HashedIdentity {
  readonly root: Root | undefined;
  /** When a profile with the identity was last deleted, epoch ms; 0 if never, or longer ago than the retention. */
  readonly deletedAt: number;
}

function deletedAtOf(hash: string, root: Root | undefined, view: View, forgetBefore: number): number {
  const at = Math.max(
    view.identityClaim(hash)?.deletedAt ?? 0,
    root?.kind === 'deleted' && root.document.tombstone.unlinked?.includes(hash) !== true
      ? root.document.tombstone.deletedAt
      : 0,
    root?.kind === 'profile' ? (root.document.content.deletions[hash] ?? 0) : 0,
  );
  return at > forgetBefore ? at : 0;
}

function ownerOf({ identity, root, deletedAt }: Found): IdentityOwner {
  const profile = ownerIn(root, identity);
  if (profile !== undefined) return { kind: 'live', profile, ...(deletedAt === 0 ? {} : { deletedAt }) };
  return deletedAt === 0 ? { kind: 'unowned' } : { kind: 'deleted', at: deletedAt };
}

/** A ucid that an identity is claimed for and that has no profile: its write is under way, or was never committed. */
function absentUcid(found: readonly Found[]): string | undefined {
  for (const { root } of found) if (root?.kind === 'absent') return root.ucid;
  return undefined;
}

/** The latest deletion of each identity: those that the documents remember, and those of the identities of this write. */
function deletionsOf(
  held: readonly Found[],
  documents: readonly (LiveDocument | RedirectDocument)[],
  forgetBefore: number,
): Readonly<Record<string, number>> {
  const latest: Record<string, number> = {};
  const note = (hash: string, at: number) => {
    if (at > forgetBefore && at > (latest[hash] ?? 0)) latest[hash] = at;
  };
  for (const { content } of documents) {
    for (const [hash, at] of Object.entries(content.deletions)) note(hash, at);
  }
  for (const { hash, deletedAt } of held) note(hash, deletedAt);
  return latest;
}

interface Target {
  readonly ucid: string;
  /** Ucids of the profile that is written, and of those that are merged into it. */
  readonly joined: ReadonlySet<string>;
  readonly view: View;
}

/**
 * The identity claim write and the fences that an identity needs before it may be written to `ucid`. A claim that leads to a
 * profile without the identity may belong to an operation that is about to write it there, so it is taken away only
 * behind a fence. If it leads to a profile that is written here, it is rewritten unchanged, so that an operation that
 * takes it away meanwhile conflicts.
 */
function identityClaimStepOf(
  { identity, hash, root, deletedAt }: Found,
  { ucid, joined, view }: Target,
): readonly { readonly step: IdentityClaimStep; readonly fences: readonly Fence[] }[] {
  const before = view.identityClaim(hash);
  const step = { hash, before, ucid, deletedAt };
  if (root === undefined) return [{ step, fences: [] }];
  if (before === undefined) {
    // The identity claim was not read, because its cached location is a profile that lists the identity.
    if (root.kind === 'profile' && holds(root.document.content.profile, identity)) return [];
    throw new TypeError('an identity claim would be moved to another profile without having been read');
  }
  switch (root.kind) {
    case 'profile': {
      if (joined.has(root.ucid)) {
        const confirmed = holds(root.document.content.profile, identity);
        return confirmed ? [] : [{ step: { ...step, ucid: before.ucid }, fences: [] }];
      }
      return [{ step, fences: [{ ucid: root.ucid }, ...fencesOfFrozen(root.document, undefined, view)] }];
    }
    case 'deleted':
      return [{ step, fences: fencesOfDeleted(root.ucid, view) }];
    case 'absent':
      return [{ step, fences: root.ucid === ucid ? [] : [{ ucid: root.ucid, hash }] }];
    case 'gone':
      return [{ step, fences: [] }];
    case 'unread':
    case 'torn':
      throw new TypeError('the profile that an identity claim leads to was not read');
  }
}

function distinct(fences: readonly Fence[]): readonly Fence[] {
  return [...new Map(fences.map((fence) => [fence.ucid, fence])).values()];
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
    const decision = decideWrite(
      write,
      {
        owners: write.identities.map(() => ({ kind: 'live', profile })),
        named: write.ucid === undefined ? undefined : profile,
      },
      now,
      () => profile.ucid,
    );
    if (decision.kind === 'detach') break;
    if (decision.kind === 'refused') {
      outcomes.push({ ...decision, ...chargeOf(size) });
      continue;
    }
    // Identities that are left out have to rest on durable documents.
    if (decision.linked.length < write.identities.length) break;
    const { applied: next, leftOut } = decision;
    dropped.push(...next.dropped);
    const charged = chargeOf(size, next.kind === 'changed' ? next.text.length : 0);
    outcomes.push({ kind: 'written', profile: next.profile, leftOut, ...charged });
    if (next.kind !== 'changed') continue;
    // Merges of the earlier change must not get lost.
    const merges = latest.kind === 'changed' ? latest.change.linked : [];
    latest = { ...next, change: withMerges(next.change, merges) };
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
