/* The parts of an OpenAPI 3.1 document that are read or written here. Other members are kept as they are. */

export interface Reference {
  readonly $ref: string;
}

export interface Header {
  readonly description?: string;
  readonly required?: boolean;
  readonly schema: object;
}

export interface Parameter extends Header {
  /** Prefilled by the reference page. */
  readonly example?: unknown;
  readonly in: 'path' | 'query' | 'header';
  readonly name: string;
}

export interface Media {
  readonly schema?: object;
  readonly example?: unknown;
}

export interface Answer {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Header | Reference>>;
  readonly content?: Readonly<Record<string, Media>>;
}

export interface DocumentedOperation {
  readonly operationId?: string;
  readonly summary?: string;
  /** The scope that a call of the profile API needs. */
  readonly 'x-scope'?: string;
  readonly tags?: readonly string[];
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, Answer | Reference>>;
}

/** The HTTP methods of the API. */
export const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;
export type Method = (typeof METHODS)[number];

export type Path = { readonly [M in Method]?: DocumentedOperation };

export interface OpenApiDocument {
  readonly openapi: string;
  readonly tags?: readonly { readonly name: string; readonly description?: string }[];
  readonly paths: Readonly<Record<string, Path>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

export function isReference(part: object): part is Reference {
  return '$ref' in part;
}
