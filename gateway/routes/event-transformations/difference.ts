import { isDeepStrictEqual } from 'node:util';
import type { Json } from '@tributary/core';

/** JSON pointer to the first place where two JSON values differ; undefined when they are equal. */
export function firstDifference(actual: Json, expected: Json, path = ''): string | undefined {
  if (isDeepStrictEqual(actual, expected)) return undefined;
  if (!isContainer(actual) || !isContainer(expected)) return path;
  if (Array.isArray(actual) !== Array.isArray(expected)) return path;
  for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    const place = `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    const [inActual, inExpected] = [memberOf(actual, key), memberOf(expected, key)];
    if (inActual === undefined || inExpected === undefined) return place;
    const found = firstDifference(inActual, inExpected, place);
    if (found !== undefined) return found;
  }
  return path;
}

type Container = readonly Json[] | { readonly [key: string]: Json };

function isContainer(value: Json): value is Container {
  return typeof value === 'object' && value !== null;
}

function memberOf(container: Container, key: string): Json | undefined {
  return Object.hasOwn(container, key) ? (container as { readonly [key: string]: Json })[key] : undefined;
}
