import type { FastifyReply, FastifyRequest } from 'fastify';
import { versionMismatch } from './errors.ts';

interface Versioned {
  readonly version: number;
}

function tagOf({ version }: Versioned): string {
  return `"${version}"`;
}

/** The `ETag` of a resource is its version. */
export function tagVersion<Resource extends Versioned>(reply: FastifyReply, resource: Resource): void {
  reply.header('etag', tagOf(resource));
}

/** True when the caller named the version that a change is for. */
export function namesVersion(request: FastifyRequest): boolean {
  return request.headers['if-match'] !== undefined;
}

/** 412 unless the `If-Match` of the request, if it has one, takes the version that is there. */
export function checkVersion(request: FastifyRequest, stored: Versioned): void {
  const header = request.headers['if-match'];
  if (header === undefined) return;
  const tags = header.split(',').map((tag) => tag.trim());
  if (!tags.includes('*') && !tags.includes(tagOf(stored))) throw versionMismatch();
}
