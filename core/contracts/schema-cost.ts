import type { SchemaFault } from './contract.ts';
import type { SchemaDocument } from './schema-document.ts';
import type { SchemaNode } from './schema-node.ts';

/** References followed one after the other, with the schemas nested between them. */
export const MAX_CHAIN = 200;
/** Schemas applied to one event when every reference is written out, counting each recursion once. */
export const MAX_EXPANSION = 50_000;
/** A recursive schema, and one that compares items, looks into an event this deep at most. */
export const MAX_SUBJECT_DEPTH = 500;

/** What the checks of a recursive schema may take of the stack, with room to spare below what Node gives. */
const STACK_BYTES = 384 * 1024;
const FRAME_BYTES = 300;
const FRAME_BYTES_PER_SCHEMA = 40;
const LEAST_DEPTH = 8;

export interface SchemaCost {
  readonly faults: readonly SchemaFault[];
  /** How deep an event may be nested for this schema to judge it. */
  readonly maxDepth: number;
}

/** What a schema may cost when it judges: whether its references end, multiply, or go too deep. */
export function costOf(document: SchemaDocument): SchemaCost {
  const chains = new ChainWalk(document);
  const whole = new ExpansionWalk();
  for (const node of document.nodes) chains.visit(node, 0);
  const expansion = whole.visit(document.root, 0);
  for (const target of document.targets) whole.visit(target, 0);
  const maxDepth = depthFor(document, whole.recursive, chains.heaviest);
  const fault =
    chains.fault ??
    whole.fault ??
    tooMuch(
      expansion > MAX_EXPANSION,
      `must come to ${MAX_EXPANSION} schemas or fewer with references written out`,
    ) ??
    tooMuch(whole.recursive && maxDepth < LEAST_DEPTH, 'is too large to refer to itself');
  return { faults: fault === undefined ? [] : [fault], maxDepth };
}

function tooMuch(holds: boolean, message: string): SchemaFault | undefined {
  return holds ? { path: '', message } : undefined;
}

function tooLong(node: SchemaNode): SchemaFault {
  return { path: node.pointer, message: `must not be reached over more than ${MAX_CHAIN} steps` };
}

function depthFor(document: SchemaDocument, recursive: boolean, heaviest: number): number {
  if (recursive) return Math.min(MAX_SUBJECT_DEPTH, Math.floor(STACK_BYTES / Math.max(1, heaviest)) - 1);
  const compares = document.nodes.some(
    (node) => typeof node.value === 'object' && node.value.uniqueItems === true,
  );
  return compares ? MAX_SUBJECT_DEPTH : Number.POSITIVE_INFINITY;
}

/** Follows what applies to one and the same value: a circle there would never end. */
class ChainWalk {
  fault: SchemaFault | undefined;
  /** The most bytes of stack that the references followed at one place of an event take. */
  heaviest = 0;
  readonly #targets: ReadonlySet<SchemaNode>;
  readonly #chains = new Map<SchemaNode, number | 'under way'>();
  readonly #frames = new Map<SchemaNode, number>();

  constructor(document: SchemaDocument) {
    this.#targets = document.targets;
  }

  visit(node: SchemaNode, depth: number): number {
    const known = this.#chains.get(node);
    if (typeof known === 'number') return known;
    if (known === 'under way' || depth > MAX_CHAIN) {
      this.fault ??= known === undefined ? tooLong(node) : { path: node.pointer, message: ENDLESS };
      return 0;
    }
    this.#chains.set(node, 'under way');
    let chain = 0;
    for (const part of node.parts) {
      if (part.place === 'here') chain = Math.max(chain, this.visit(part.node, depth + 1));
    }
    for (const target of node.refs) {
      chain = Math.max(chain, this.visit(target, depth + 1) + this.#frame(target));
    }
    this.#chains.set(node, chain);
    this.heaviest = Math.max(this.heaviest, chain);
    return chain;
  }

  /** Compiled code is one function for the root and one for each target of a reference. */
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

const ENDLESS = 'must not lead back to itself without going deeper into the event';

/** Follows everything, as a compiler does, and counts the schemas with every reference written out. */
class ExpansionWalk {
  fault: SchemaFault | undefined;
  recursive = false;
  readonly #expansions = new Map<SchemaNode, number | 'under way'>();

  visit(node: SchemaNode, depth: number): number {
    const known = this.#expansions.get(node);
    if (typeof known === 'number') return known;
    if (known === 'under way') {
      this.recursive = true;
      return 0;
    }
    if (depth > MAX_CHAIN) {
      this.fault ??= tooLong(node);
      return 0;
    }
    this.#expansions.set(node, 'under way');
    let expansion = 1;
    for (const part of node.parts) expansion += this.visit(part.node, depth + 1);
    for (const target of node.refs) expansion += this.visit(target, depth + 1);
    this.#expansions.set(node, expansion);
    return expansion;
  }
}
