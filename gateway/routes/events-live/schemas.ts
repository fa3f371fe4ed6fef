import type { Readable } from 'node:stream';
import { ENVIRONMENTS } from '@tributary/core';
import { Type } from 'typebox';
import { closed, oneOf } from '../../http/schemas.ts';

export const liveQuery = closed({
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
});

export const liveBody = Type.Unsafe<Readable>({
  type: 'string',
  description:
    'Server-Sent Events. `event`: one event of the workspace with its `outcome` and `violations`; ' +
    '`missed`: so many events (null: nobody knows how many) are kept no more; `interrupted` and `resumed`: nothing is ' +
    'seen in between; `end`: why the stream ends.',
});
