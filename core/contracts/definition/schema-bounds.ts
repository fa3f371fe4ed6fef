import type { SchemaFault } from '../contract.ts';
import { below } from '../json-values.ts';
import type { SchemaNode } from './keywords.ts';
import type { SchemaDocument } from './schema-document.ts';

/** References followed one after the other, with the schemas nested between them. */
const MAX_CHAIN = 200;
/** Schemas applied to one event when every reference is written out, counting each recursion once. */
export const MAX_EXPANSION = 50_000;
/** How deep an event may be nested for a recursive schema, and for one that compares items. */
const MAX_SUBJECT_DEPTH = 500;

/** Stack that the evaluation of a recursive schema may take, well below what Node gives a thread. */
const STACK_BYTES = 384 * 1024;
const FRAME_BYTES = 300;
const FRAME_BYTES_PER_SCHEMA = 40;
/** A recursive schema that could not descend this deep is refused. */
const MIN_DEPTH = 8;

interface SchemaBounds {
  readonly faults: readonly SchemaFault[];
  /** How deep an event may be nested to be evaluated. */
  readonly maxDepth: number;
}

/**
 * Bounds the evaluation of a schema: its references must terminate, and must neither multiply nor chain
 * without limit. Also rejects schemas that the compiler handles incorrectly.
 */
export function boundsOf(document: SchemaDocument): SchemaBounds {
  const chains = new ChainWalk(document);
  const whole = new ExpansionWalk();
  for (const node of document.nodes) chains.visit(node, 0);
  const expansion = whole.visit(document.root, 0);
  for (const target of document.targets) whole.visit(target, 0);
  const maxDepth = maxDepthOf(document, whole.recursive, chains.heaviest);
  const fault =
    chains.fault ??
    whole.fault ??
    faultIf(
      expansion > MAX_EXPANSION,
      `must come to ${MAX_EXPANSION} schemas or fewer with references written out`,
    ) ??
    faultIf(whole.recursive && maxDepth < MIN_DEPTH, 'is too large to refer to itself');
  return { faults: fault === undefined ? unevaluatedFaults(document) : [fault], maxDepth };
}

function faultIf(holds: boolean, message: string): SchemaFault | undefined {
  return holds ? { path: '', message } : undefined;
}

function tooLong(node: SchemaNode): SchemaFault {
  return { path: node.pointer, message: `must not be reached over more than ${MAX_CHAIN} steps` };
}

function maxDepthOf(document: SchemaDocument, recursive: boolean, heaviest: number): number {
  if (recursive) return Math.min(MAX_SUBJECT_DEPTH, Math.floor(STACK_BYTES / Math.max(1, heaviest)) - 1);
  const compares = document.nodes.some(
    (node) => typeof node.value === 'object' && node.value.uniqueItems === true,
  );
  return compares ? MAX_SUBJECT_DEPTH : Number.POSITIVE_INFINITY;
}

const ENDLESS = 'must not lead back to itself without going deeper into the event';

/** Follows the schemas that apply to one and the same value, where a cycle would never end. */
class ChainWalk {
  fault: SchemaFault | undefined;
  /** The most bytes of stack that the references followed for one value take. */
  heaviest = 0;
  readonly #targets: ReadonlySet<SchemaNode>;
  readonly #chains = new Map<SchemaNode, number | 'in progress'>();
  readonly #frames = new Map<SchemaNode, number>();

  constructor(document: SchemaDocument) {
    this.#targets = document.targets;
  }

  visit(node: SchemaNode, depth: number): number {
    const known = this.#chains.get(node);
    if (typeof known === 'number') return known;
    if (known === 'in progress' || depth > MAX_CHAIN) {
      this.fault ??= known === undefined ? tooLong(node) : { path: node.pointer, message: ENDLESS };
      return 0;
    }
    this.#chains.set(node, 'in progress');
    let chain = 0;
    for (const part of node.parts) {
      if (part.applies === 'in-place') chain = Math.max(chain, this.visit(part.node, depth + 1));
    }
    for (const target of node.refs) {
      chain = Math.max(chain, this.visit(target, depth + 1) + this.#frame(target));
    }
    this.#chains.set(node, chain);
    this.heaviest = Math.max(this.heaviest, chain);
    return chain;
  }

  /** Stack of one compiled function: the root is one, and each target of a reference. */
  #frame(target: SchemaNode): number {
    const frame = this.#frames.get(target) ?? FRAME_BYTES + FRAME_BYTES_PER_SCHEMA * this.#inlined(target);
    this.#frames.set(target, frame);
    return frame;
  }

  #inlined(node: SchemaNode): number {
    let count = 1;
    for (const part of node.parts) count += this.#targets.has(part.node) ? 1 : this.#inlined(part.node);
    return count;
  }
}

/** Follows every schema and counts them with every reference written out. */
class ExpansionWalk {
  fault: SchemaFault | undefined;
  recursive = false;
  readonly #expansions = new Map<SchemaNode, number | 'in progress'>();

  visit(node: SchemaNode, depth: number): number {
    const known = this.#expansions.get(node);
    if (typeof known === 'number') return known;
    if (known === 'in progress') {
      this.recursive = true;
      return 0;
    }
    if (depth > MAX_CHAIN) {
      this.fault ??= tooLong(node);
      return 0;
    }
    this.#expansions.set(node, 'in progress');
    let expansion = 1;
    for (const part of node.parts) expansion += this.visit(part.node, depth + 1);
    for (const target of node.refs) expansion += this.visit(target, depth + 1);
    this.#expansions.set(node, expansion);
    return expansion;
  }
}

/**
 * Refuses `unevaluatedItems` where a `contains` applies to the same list. The compiler counts evaluated items from the first
 * on, so it would take all of them for evaluated. The references of the document must end.
 */
function unevaluatedFaults(document: SchemaDocument): readonly SchemaFault[] {
  const known = new Map<SchemaNode, boolean>();

  /** Whether a `contains` applies to the value that this schema is applied to. */
  function contains(node: SchemaNode): boolean {
    const found = known.get(node) ?? search(node);
    known.set(node, found);
    return found;
  }

  function search(node: SchemaNode): boolean {
    return (
      node.parts.some(
        ({ keyword, applies, node: part }) =>
          keyword === 'contains' || (applies === 'in-place' && keyword !== 'not' && contains(part)),
      ) || node.refs.some(contains)
    );
  }

  return document.nodes
    .filter((node) => node.parts.some(({ keyword }) => keyword === 'unevaluatedItems') && contains(node))
    .map((node) => ({
      path: below(node.pointer, 'unevaluatedItems'),
      message: 'must not stand where contains applies too',
    }));
}
