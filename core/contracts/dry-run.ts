import type { CanonicalEvent } from '../event/event.ts';
import type { ContractVerdict } from './contract.ts';

type RecordedViolation = ContractVerdict['violations'][number];

/** Violations of one kind at one path, in all events together. */
export interface DryRunViolation extends Pick<RecordedViolation, 'kind' | 'action' | 'message'> {
  /** As a violation has it; `*` stands for the positions in a list. */
  readonly path: string;
  /** How many events had it. */
  readonly events: number;
}

/** An event that would not have passed untouched. */
export interface DryRunExample {
  readonly event: CanonicalEvent;
  readonly verdict: ContractVerdict;
}

export interface DryRunResult {
  readonly outcomes: Readonly<Record<ContractVerdict['outcome'], number>>;
  /** Violations of the most events first. */
  readonly violations: readonly DryRunViolation[];
  /** True where there were more kinds and paths than are listed. */
  readonly isCut: boolean;
  readonly examples: readonly DryRunExample[];
}

/** Kinds and paths listed, and events kept as examples. */
export const MAX_DRY_RUN_VIOLATIONS = 200;
export const MAX_DRY_RUN_EXAMPLES = 10;

/** Sums up the verdicts that a contract would have given on events added one after the other. Nothing is recorded. */
export class ContractDryRun {
  readonly #outcomes = { accepted: 0, warned: 0, omitted: 0, rejected: 0 };
  readonly #violations = new Map<string, DryRunViolation>();
  readonly #examples: DryRunExample[] = [];
  #isCut = false;

  add(event: CanonicalEvent, verdict: ContractVerdict): void {
    this.#outcomes[verdict.outcome]++;
    if (verdict.violations.length === 0) return;
    if (this.#examples.length < MAX_DRY_RUN_EXAMPLES) this.#examples.push({ event, verdict });
    const counted = new Set<string>();
    for (const violation of verdict.violations) this.#count(violation, counted);
  }

  get result(): DryRunResult {
    return {
      outcomes: { ...this.#outcomes },
      violations: [...this.#violations.values()].sort(
        (a, b) => b.events - a.events || (a.path < b.path ? -1 : 1),
      ),
      isCut: this.#isCut,
      examples: [...this.#examples],
    };
  }

  /** Counts an event once, however many items of a list have the violation. */
  #count({ kind, path, message, action }: RecordedViolation, counted: Set<string>): void {
    const fieldPath = path.replaceAll(/\/\d+(?=\/|$)/g, '/*');
    const id = `${kind} ${action} ${fieldPath}`;
    if (counted.has(id)) return;
    counted.add(id);
    const known = this.#violations.get(id);
    if (known === undefined && this.#violations.size >= MAX_DRY_RUN_VIOLATIONS) this.#isCut = true;
    else
      this.#violations.set(id, { kind, path: fieldPath, message, action, events: (known?.events ?? 0) + 1 });
  }
}
