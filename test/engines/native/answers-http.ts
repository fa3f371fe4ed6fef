const TIMEOUT_MS = 2_000;

/** True when a GET is answered with a status of success. */
export async function answersHttp(url: string): Promise<boolean> {
  const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  await response.arrayBuffer();
  return response.ok;
}
