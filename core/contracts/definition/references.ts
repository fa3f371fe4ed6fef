import type { JsonObject } from '../../event/event.ts';
import type { SchemaFault } from '../contract.ts';
import { below } from '../json-values.ts';
import { type Dialect, isReferenceOnly, type SchemaNode } from './keywords.ts';

/** The base of relative identifiers in a document without `$id`. */
export const BASE_URI = 'contract://document/';

interface Reference {
  readonly from: SchemaNode;
  readonly keyword: '$ref' | '$dynamicRef';
  readonly ref: string;
  readonly base: string;
}

interface ResolvedReference {
  readonly from: SchemaNode;
  readonly target: SchemaNode;
}

/**
 * Resolves the references of a document within that document alone. The compiler gets no identifiers: nothing is fetched,
 * and contracts with the same `$id` do not affect each other.
 */
export class ReferenceIndex {
  readonly #byPointer = new Map<string, SchemaNode>();
  readonly #resources = new Map<string, SchemaNode>();
  readonly #anchors = new Map<string, SchemaNode>();
  /** How often each name of a `$dynamicAnchor` occurs, in all resources. */
  readonly #dynamicAnchors = new Map<string, number>();
  readonly #references: Reference[] = [];

  register(node: SchemaNode): void {
    this.#byPointer.set(node.pointer, node);
    if (node.pointer === '') this.#resources.set(BASE_URI, node);
  }

  /** Registers a schema with its identifiers and references. Returns the base of identifiers inside it. */
  enter(node: SchemaNode, value: JsonObject, base: string, dialect: Dialect, faults: SchemaFault[]): string {
    this.register(node);
    const inner = isReferenceOnly(value, dialect) ? base : this.#identify(node, value, base, faults);
    for (const keyword of ['$ref', '$dynamicRef'] as const) {
      const ref = value[keyword];
      if (typeof ref === 'string') this.#references.push({ from: node, keyword, ref, base: inner });
    }
    return inner;
  }

  resolve(faults: SchemaFault[]): readonly ResolvedReference[] {
    const resolved: ResolvedReference[] = [];
    for (const reference of this.#references) {
      const { from, keyword } = reference;
      const found = this.#find(reference);
      if (typeof found === 'string') faults.push({ path: below(from.pointer, keyword), message: found });
      else resolved.push({ from, target: found });
    }
    return resolved;
  }

  #identify(node: SchemaNode, value: JsonObject, base: string, faults: SchemaFault[]): string {
    let inner = base;
    if (typeof value.$id === 'string') {
      const url = URL.canParse(value.$id, base) ? new URL(value.$id, base) : undefined;
      if (url === undefined) {
        faults.push({ path: below(node.pointer, '$id'), message: 'must be a URI reference' });
      } else if (url.hash.length > 1) {
        this.#name(`${withoutFragment(url)}${url.hash}`, node, '$id', faults);
      } else {
        inner = withoutFragment(url);
        if (this.#resources.has(inner) && this.#resources.get(inner) !== node) {
          faults.push({ path: below(node.pointer, '$id'), message: 'must differ from every other $id' });
        }
        this.#resources.set(inner, node);
      }
    }
    if (typeof value.$anchor === 'string') this.#name(`${inner}#${value.$anchor}`, node, '$anchor', faults);
    const dynamic = value.$dynamicAnchor;
    if (typeof dynamic === 'string') {
      this.#name(`${inner}#${dynamic}`, node, '$dynamicAnchor', faults);
      this.#dynamicAnchors.set(dynamic, (this.#dynamicAnchors.get(dynamic) ?? 0) + 1);
    }
    return inner;
  }

  #name(anchor: string, node: SchemaNode, keyword: string, faults: SchemaFault[]): void {
    if (this.#anchors.has(anchor) && this.#anchors.get(anchor) !== node) {
      faults.push({ path: below(node.pointer, keyword), message: 'must name one schema only' });
    }
    this.#anchors.set(anchor, node);
  }

  #find({ ref, base, keyword }: Reference): SchemaNode | string {
    if (!URL.canParse(ref, base)) return 'must be a URI reference';
    const url = new URL(ref, base);
    const resource = this.#resources.get(withoutFragment(url));
    if (resource === undefined) return 'must not point outside this schema';
    const fragment = decoded(url.hash.slice(1));
    if (fragment === '') return resource;
    if (fragment?.startsWith('/') === true) {
      return this.#byPointer.get(resource.pointer + fragment) ?? 'points at nothing that is a schema';
    }
    const target = this.#anchors.get(withoutFragment(url) + url.hash);
    if (target === undefined) return 'points at nothing that is a schema';
    if (keyword === '$dynamicRef' && (this.#dynamicAnchors.get(fragment ?? '') ?? 0) > 1) {
      return 'must name a $dynamicAnchor that stands once in this schema';
    }
    return target;
  }
}

function withoutFragment(url: URL): string {
  const copy = new URL(url);
  copy.hash = '';
  return copy.href;
}

function decoded(fragment: string): string | undefined {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return undefined;
  }
}
