import type { JsonObject } from '../event/event.ts';
import { cutPath } from './breaches.ts';
import type { ContractTerms, ContractVerdict } from './contract.ts';
import { type Breach, MAX_VIOLATIONS } from './violation.ts';

/** What was found in a subject. */
export interface Findings {
  /** Breaches of the schema itself. */
  readonly breaches: readonly Breach[];
  /** JSON pointers of the undeclared fields; none when the contract allows them. */
  readonly undeclared: readonly string[];
}

type Recorded = ContractVerdict['breaches'][number];

/**
 * What to do about the findings. Enforcement is the ceiling: nothing rejects unless it says `block`. A field that is
 * undeclared and that the schema forbids is one breach. A rejected event stays as it is, so nothing of it is
 * `omitted`: its undeclared fields are then recorded as `warned`. `without` gives the subject without the undeclared.
 */
export function verdictOf(
  terms: Pick<ContractTerms, 'enforcement_mode' | 'undeclared_fields'>,
  { breaches, undeclared }: Findings,
  without: () => JsonObject,
): ContractVerdict {
  const counted = terms.undeclared_fields === 'block' ? undeclared.length : 0;
  const rejected = terms.enforcement_mode === 'block' && breaches.length + counted > 0;
  const omits = terms.undeclared_fields === 'omit' && undeclared.length > 0 && !rejected;
  const recorded = record(breaches, undeclared.map(cutPath), {
    schema: rejected ? 'blocked' : 'warned',
    undeclared: omits ? 'omitted' : rejected && counted > 0 ? 'blocked' : 'warned',
  });
  if (rejected) return { outcome: 'rejected', breaches: recorded };
  if (omits) return { outcome: 'omitted', breaches: recorded, subject: without() };
  return { outcome: recorded.length > 0 ? 'warned' : 'accepted', breaches: recorded };
}

function record(
  breaches: readonly Breach[],
  undeclared: readonly string[],
  actions: { readonly schema: Recorded['action']; readonly undeclared: Recorded['action'] },
): readonly Recorded[] {
  const open = new Set(undeclared);
  const recorded = breaches.map((breach): Recorded => {
    const both = breach.kind === 'undeclared' && open.delete(breach.path);
    return { ...breach, action: both && actions.schema === 'warned' ? actions.undeclared : actions.schema };
  });
  for (const path of open) {
    if (recorded.length >= MAX_VIOLATIONS) break;
    recorded.push({ kind: 'undeclared', path, message: 'is not declared', action: actions.undeclared });
  }
  return recorded;
}
