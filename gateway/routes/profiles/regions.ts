import type { ErrorDetail } from '../../errors/api-error.ts';
import type { NamedRegion } from './admission.ts';

/** The regions of a list, each once, with their places. */
export function regionsOf(regions: readonly string[]): readonly NamedRegion[] {
  const seen = new Set<string>();
  return regions.flatMap((name, at) => {
    if (seen.has(name)) return [];
    seen.add(name);
    return [{ name, path: `/regions/${at}` }];
  });
}

/** The same of a body that says either `region` or `regions`, as both descriptions of the API have one of them. */
export function eitherRegions(
  { region, regions }: { region?: string | null; regions?: readonly string[] | null },
  faults: ErrorDetail[],
): readonly NamedRegion[] {
  if (region != null && regions != null) {
    faults.push({ path: '/regions', message: 'must not be there beside region' });
    return [];
  }
  if (region != null) return [{ name: region, path: '/region' }];
  if (regions != null) return regionsOf(regions);
  faults.push({ path: '/region', message: 'is required' });
  return [];
}
