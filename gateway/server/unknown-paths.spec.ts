import { describe, expect, it } from 'vitest';
import { AllowedMethods } from './create-server.ts';

describe('the methods of a path', () => {
  const methods = new AllowedMethods();
  methods.add('/sources', 'GET');
  methods.add('/sources', ['POST', 'HEAD']);
  methods.add('/sources/:sourceId', 'PUT');
  methods.add('/sources/redrive', 'POST');
  methods.add('*', 'OPTIONS');
  methods.add('/a.b', 'GET');

  it.each([
    ['/sources', ['GET', 'HEAD', 'POST']],
    ['/sources/?limit=1', ['GET', 'HEAD', 'POST']],
    ['/sources/1', ['PUT']],
    ['/sources/redrive', ['POST']],
    ['/sources/1/more', []],
    ['/sources/', ['GET', 'HEAD', 'POST']],
    ['/aXb', []],
    ['/nothing', []],
  ])('of %s are %j', (url, expected) => {
    expect(methods.of(url)).toEqual(expected);
  });
});
