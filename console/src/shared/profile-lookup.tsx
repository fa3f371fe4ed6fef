import { Anchor } from '@mantine/core';
import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import type { ReactNode } from 'react';

/** The identity that a person looks up on the page of profiles. An empty type stands for all usual types. */
export interface ProfileLookup {
  readonly type: string;
  readonly value: string;
}

/*
 * Personal data never goes into the URL or the history of the browser: the identity is kept in memory, beside the answers of
 * the API, and discarded with them.
 */
const keyOf = (workspaceId: string) => ['profile-lookup', workspaceId];

export function useProfileLookup(workspaceId: string): ProfileLookup | null {
  const { data } = useQuery<ProfileLookup | null>({
    queryKey: keyOf(workspaceId),
    enabled: false,
    initialData: null,
    staleTime: Number.POSITIVE_INFINITY,
  });
  return data;
}

export function lookUpProfile(queries: QueryClient, workspaceId: string, lookup: ProfileLookup): void {
  queries.setQueryData(keyOf(workspaceId), lookup);
}

interface Props extends ProfileLookup {
  readonly workspaceId: string;
  readonly children: ReactNode;
}

/** Leads from an identity, such as the `user_id` of an event, to its profile. */
export function ProfileLink({ workspaceId, type, value, children }: Props) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  return (
    <Anchor
      component="button"
      type="button"
      inherit
      onClick={() => {
        lookUpProfile(queries, workspaceId, { type, value });
        void navigate({ to: '/w/$workspaceId/profiles', params: { workspaceId } });
      }}
    >
      {children}
    </Anchor>
  );
}
