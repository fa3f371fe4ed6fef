import { Button, Group, Paper, Radio, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { useWorkspaceId } from '../../frame/workspace.tsx';
import { CodeView } from '../../shared/code-view.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { notifyDone } from '../../shared/notify.ts';
import { Page } from '../../shared/page.tsx';
import { RECIPES, type Recipe } from './recipes.ts';
import { createTransformation } from './transformation-calls.ts';

const FROM = '/w/$workspaceId/transformations/new';

/** A new transformation from a recipe: code with a passing test, as a starting point. */
export function NewTransformationPage() {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const search = useSearch({ from: FROM });
  const navigate = useNavigate({ from: FROM });
  const recipe = RECIPES.find(({ id }) => id === search.recipe) ?? RECIPES[0];
  const [name, setName] = useState<string>();
  const shownName = name ?? (recipe === undefined || recipe.id === 'blank' ? '' : recipe.name);
  const create = useMutation({
    mutationFn: ({ id: _, ...body }: Recipe) =>
      createTransformation(workspaceId, { ...body, name: shownName }),
    onSuccess: ({ id, name: created }) => {
      void queries.invalidateQueries({ queryKey: ['transformations', workspaceId] });
      notifyDone(`Created the transformation ${created}`);
      void navigate({
        to: '/w/$workspaceId/transformations/$transformationId',
        params: { workspaceId, transformationId: id },
      });
    },
  });
  if (recipe === undefined) return null;
  return (
    <Page
      title="New transformation"
      description="Choose what to begin with. The code is changed and run on your own events on the next page."
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate(recipe);
        }}
      >
        <Stack>
          <Radio.Group
            label="Begin with"
            value={recipe.id}
            onChange={(id) => void navigate({ search: { recipe: id }, replace: true })}
          >
            <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="sm" mt="xs">
              {RECIPES.map(({ id, name: title, description }) => (
                <Paper key={id} withBorder p="sm">
                  <Radio value={id} label={<Text fw={600}>{title}</Text>} description={description} />
                </Paper>
              ))}
            </SimpleGrid>
          </Radio.Group>
          <TextInput
            label="Name"
            required
            maw={480}
            value={shownName}
            onChange={({ currentTarget: { value } }) => setName(value)}
          />
          <CodeView language="javascript" label={`Code of ${recipe.name}`} value={recipe.source_code} />
          {create.error !== null && <ErrorAlert error={create.error} />}
          <Group justify="flex-end">
            <Button
              variant="default"
              onClick={() =>
                void navigate({ to: '/w/$workspaceId/transformations', params: { workspaceId } })
              }
            >
              Cancel
            </Button>
            <Button type="submit" loading={create.isPending} disabled={shownName.trim() === ''}>
              Create transformation
            </Button>
          </Group>
        </Stack>
      </form>
    </Page>
  );
}
