import {
  forgetDeletionsBefore,
  identitiesToLookUp,
  type Profile,
  type ProfileChange,
  type ProfileWrite,
} from '@tributary/core';
import type { ChangePublisher } from './change-publisher.ts';
import { ClaimsToFree } from './claims-to-free.ts';
import {
  type Content,
  claimHash,
  type LiveDocument,
  liveSource,
  type RedirectDocument,
} from './document-forms.ts';
import { AGAIN, type Again } from './restarts.ts';
import type { StoreTools } from './store-tools.ts';
import { View } from './view.ts';
import { groupOf, type WriteGroup } from './write-group.ts';
import { planWrite, type WritePlan } from './write-plan.ts';
import { WriteSteps } from './write-steps.ts';

/**
 * One attempt to carry out the first of the writes, and with it as many of the following ones as concern the same
 * profile alone. The outcomes of those that were carried out; `AGAIN` when somebody else wrote what it relied on.
 */
export async function attemptUpsert(
  [write, ...others]: readonly [ProfileWrite, ...ProfileWrite[]],
  tools: StoreTools,
  publisher: ChangePublisher,
): Promise<WriteGroup['outcomes'] | Again> {
  const { clock, documents, durable, hints, newUcid, retentionMs } = tools;
  const identities = identitiesToLookUp(write).map((identity) => ({
    identity,
    claim: claimHash(write, identity),
  }));
  const view = new View(documents, hints);
  await view.load(identities, write.ucid === undefined ? [] : [write.ucid]);
  const now = clock();
  const plan = planWrite(
    { write, identities, now, freshUcid: newUcid(), forgetBefore: forgetDeletionsBefore(now, retentionMs) },
    view,
  );
  if (plan.kind === 'refused') {
    if ((await durable.settle(plan.because)) === AGAIN) return AGAIN;
    return [plan.outcome];
  }
  if ((await durable.settle(plan.apart)) === AGAIN) return AGAIN;
  const steps = new WriteSteps(tools, view);
  if (!(await steps.fence(plan.fences, write)) || !(await steps.claimAndFreeze(plan))) return AGAIN;
  const group = groupOf(plan, others, now);
  // Only behind a write of the profile: somebody else may be about to list them there.
  const dropped = group.change === undefined ? [] : group.dropped;
  const freed = await ClaimsToFree.read(
    dropped.map((identity) => claimHash(write, identity)),
    tools,
  );
  if (!(await commit(plan, group, steps))) return AGAIN;
  for (const { claim } of plan.held) view.remember(claim, plan.ucid);
  if (plan.joining.length > 0) tools.background(steps.tidy(plan.joining, plan.ucid));
  freed.free(group.profile, plan.deletions);
  return group.outcomes;

  /** The one write that makes everything happen. Where nothing changes, that it was so is made durable. */
  async function commit(
    { ucid, document, deletions }: Extract<WritePlan, { kind: 'write' }>,
    { profile, text, change }: WriteGroup,
    steps: WriteSteps,
  ): Promise<boolean> {
    if (change === undefined)
      return document === undefined || (await durable.settleOne(ucid, document)) !== AGAIN;
    return commitChange({ document, deletions, profile, text, change }, steps, tools, publisher);
  }
}

/** What a profile becomes, and what is told of it. */
export interface Commit {
  /** What the profile is now; undefined when it is to be made. */
  readonly document: LiveDocument | RedirectDocument | undefined;
  readonly deletions: Content['deletions'];
  readonly profile: Profile;
  /** The JSON of `profile`. */
  readonly text: string;
  readonly change: ProfileChange;
  /** A ucid that is split off by the change. */
  readonly splitOff?: string;
}

/** Writes the profile live, with its change. False when somebody else wrote it. */
export async function commitChange(
  { document, deletions, profile, text, change, splitOff }: Commit,
  steps: WriteSteps,
  { durable }: StoreTools,
  publisher: ChangePublisher,
): Promise<boolean> {
  const { ucid } = profile;
  const earlier = await carried(document, publisher);
  const published = withCarried(
    change,
    earlier.filter((linked) => linked !== splitOff),
  );
  const open = await publisher.begin();
  const content = { profile, deletions, unpublished: published.linked };
  try {
    const version = await steps.put(ucid, liveSource(content, open.pending, text));
    if (version === undefined) {
      publisher.notCommitted(open);
      return false;
    }
    publisher.committed(open, published, text.length);
    durable.note(ucid, version);
    return true;
  } catch (error) {
    publisher.unknown(open);
    throw error;
  }
}

/** What became part of the profile by a change that its publisher may not have published. */
async function carried(
  document: LiveDocument | RedirectDocument | undefined,
  publisher: ChangePublisher,
): Promise<readonly string[]> {
  if (document?.pending === undefined || document.content.unpublished.length === 0) return [];
  return (await publisher.isPublished(document.pending)) ? [] : document.content.unpublished;
}

function withCarried(change: ProfileChange, carried: readonly string[]): ProfileChange {
  return carried.length === 0
    ? change
    : { ...change, kind: 'merged', linked: [...new Set([...carried, ...change.linked])].sort() };
}
