import { expect, test } from 'vitest';
import { ownerOf } from './owner.ts';

const NOBODY = 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65533::/:/usr/sbin/nologin\n';

test('only root needs another owner: the user of the package, otherwise none', () => {
  expect(ownerOf(1000)).toBeUndefined();
  expect(ownerOf(0, () => NOBODY)).toEqual({ uid: 65534, gid: 65533 });
  expect(ownerOf(0, () => `${NOBODY}postgres:x:101:104::/var:/bin/sh\n`)).toEqual({ uid: 101, gid: 104 });
  expect(ownerOf(0, () => 'root:x:0:0::/root:/bin/sh\n')).toBeUndefined();
});
