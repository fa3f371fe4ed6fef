import type { SchemaFault } from '../contract.ts';
import type { SchemaNode } from './keywords.ts';
import type { SchemaDocument } from './schema-document.ts';

/** References followed one after the other, with the schemas nested between them. */
const MAX_CHAIN = 200;
/** Schemas applied to one event when every reference is written out, counting each recursion once. */
export const MAX_EXPANSION = 50_000;
/** How deep an event may be nested for a recursive schema, and for one that compares items. */
const MAX_SUBJECT_DEPTH = 500;

/** Stack that the evaluation of a recursive schema may take, well below what Node gives a thread, and that of one schema. */
const STACK_BYTES = 512 * 1024;
const BYTES_PER_SCHEMA = 250;
/** A recursive schema that could not descend this deep is refused. */
const MIN_DEPTH = 8;

interface SchemaBounds {
  readonly fault: SchemaFault | undefined;
  /** How deep an event may be nested to be evaluated. */
  readonly maxDepth: number;
}

/** Bounds the evaluation of a schema: its references must terminate, and must neither multiply nor chain without limit. */
export function boundsOf(document: SchemaDocument): SchemaBounds {
  const chains = new ChainWalk();
  const whole = new ExpansionWalk();
  for (const node of document.nodes) chains.visit(node, 0);
  const expansion = whole.visit(document.root, 0);
  for (const target of document.targets) whole.visit(target, 0);
  const maxDepth = maxDepthOf(document, whole.recursive, chains.longest);
  const fault =
    chains.fault ??
    whole.fault ??
    faultIf(
      expansion > MAX_EXPANSION,
      `must come to ${MAX_EXPANSION} schemas or fewer with references written out`,
    ) ??
    faultIf(whole.recursive && maxDepth < MIN_DEPTH, 'is too large to refer to itself');
  return { fault, maxDepth };
}

function faultIf(holds: boolean, message: string): SchemaFault | undefined {
  return holds ? { path: '', message } : undefined;
}

function tooLong(node: SchemaNode): SchemaFault {
  return { path: node.pointer, message: `must not be reached over more than ${MAX_CHAIN} steps` };
}

function maxDepthOf(document: SchemaDocument, recursive: boolean, longest: number): number {
  if (recursive)
    return Math.min(MAX_SUBJECT_DEPTH, Math.floor(STACK_BYTES / (BYTES_PER_SCHEMA * longest)) - 1);
  const compares = document.nodes.some(
    (node) => typeof node.value === 'object' && node.value.uniqueItems === true,
  );
  return compares ? MAX_SUBJECT_DEPTH : Number.POSITIVE_INFINITY;
}

const ENDLESS = 'must not lead back to itself without going deeper into the event';

/** Follows the schemas that apply to one and the same value, where a cycle would never end. */
class ChainWalk {
  fault: SchemaFault | undefined;
  /** The most schemas that are applied to one value one inside the other. */
  longest = 1;
  readonly #chains = new Map<SchemaNode, number | 'in progress'>();

  visit(node: SchemaNode, depth: number): number {
    const known = this.#chains.get(node);
    if (typeof known === 'number') return known;
    if (known === 'in progress' || depth > MAX_CHAIN) {
      this.fault ??= known === undefined ? tooLong(node) : { path: node.pointer, message: ENDLESS };
      return 0;
    }
    this.#chains.set(node, 'in progress');
    const applied = node.parts.filter((part) => part.applies === 'in-place').map((part) => part.node);
    const inner = [...applied, ...node.refs].map((each) => this.visit(each, depth + 1));
    const chain = 1 + Math.max(0, ...inner);
    this.#chains.set(node, chain);
    this.longest = Math.max(this.longest, chain);
    return chain;
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
