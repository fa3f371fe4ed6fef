import type { FastifyReply, FastifyRequest } from 'fastify';
import { versionMismatch } from './errors.ts';

interface Versioned {
  readonly version: number;
}

function tagOf({ version }: Versioned): string {
  return `"${version}"`;
}

/** What a tag says: a proxy that compresses answers makes it weak (`W/"3"`), or appends the coding (`"3-gzip"`). */
const TAG = /^(?:W\/)?"(?<version>\d+)(?:[-;+:](?:gzip|br|deflate|zstd|df))?"$/;

/** The `ETag` of a resource is its version. */
export function tagVersion<Resource extends Versioned>(reply: FastifyReply, resource: Resource): void {
  reply.header('etag', tagOf(resource));
}

/** True when the caller named the version that a change is for; `*` takes any. */
export function namesVersion(request: FastifyRequest): boolean {
  return request.headers['if-match'] !== undefined && !tagsOf(request).includes('*');
}

function tagsOf(request: FastifyRequest): readonly string[] {
  return (request.headers['if-match'] ?? '').split(',').map((tag) => tag.trim());
}

/**
 * 412 unless the `If-Match` of the request, if it has one, takes the version that is there. A weak tag does: a version
 * is of the resource and not of the bytes of an answer.
 */
export function checkVersion(request: FastifyRequest, stored: Versioned): void {
  if (!namesVersion(request)) return;
  const isTaken = (tag: string) => TAG.exec(tag)?.groups?.version === String(stored.version);
  if (!tagsOf(request).some(isTaken)) throw versionMismatch();
}
