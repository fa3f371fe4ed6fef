import { OperatorError } from '../process/lifecycle.ts';
import { openFolderTarget } from './folder-target.ts';
import type { BackupTarget } from './target.ts';

const S3 = /^s3:\/\/(?<bucket>[^/]+)(?:\/(?<prefix>.*))?$/;

/** A folder, or `s3://bucket/prefix` with the standard settings of AWS in the environment. */
export async function openTarget(
  where: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<BackupTarget> {
  const { bucket, prefix = '' } = S3.exec(where)?.groups ?? {};
  if (bucket !== undefined) {
    const { openS3Target } = await import('./s3-target.ts');
    return openS3Target({ bucket, prefix: prefix.replace(/\/+$/, ''), environment });
  }
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(where))
    throw new OperatorError(`${where} is neither a folder nor s3://bucket/prefix`);
  return openFolderTarget(where);
}
