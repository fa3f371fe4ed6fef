import { Badge } from '@mantine/core';

export type Environment = 'production' | 'development';

export function EnvironmentBadge({ environment }: { readonly environment: Environment }) {
  return (
    <Badge variant="light" color={environment === 'production' ? 'blue' : 'grape'}>
      {environment}
    </Badge>
  );
}

/** The processing of the events of an environment, in words. */
export const ENVIRONMENT_TEXTS: Readonly<Record<Environment, string>> = {
  production: 'Events of your live product: rules forward them and profiles learn from them.',
  development:
    'Events of tests: contracts check them, but they write no profile, and a rule forwards them only if its environments name development.',
};
