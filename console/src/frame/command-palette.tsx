import { Spotlight, type SpotlightActionData } from '@mantine/spotlight';
import { MagnifyingGlassIcon } from '@radix-ui/react-icons';
import { useNavigate } from '@tanstack/react-router';
import { WORKSPACE_PAGES } from './navigation.ts';

/** Ctrl-K: every page and every entity by its name. */
export function CommandPalette({ workspaceId }: { readonly workspaceId: string | undefined }) {
  const navigate = useNavigate();
  const pages: SpotlightActionData[] =
    workspaceId === undefined
      ? []
      : WORKSPACE_PAGES.map(({ title, path, icon: Icon }) => ({
          id: path,
          label: title,
          leftSection: <Icon aria-hidden />,
          onClick: () => void navigate({ to: path, params: { workspaceId } }),
        }));
  return (
    <Spotlight
      actions={pages}
      shortcut="mod + K"
      highlightQuery
      nothingFound="Nothing of that name"
      searchProps={{ leftSection: <MagnifyingGlassIcon aria-hidden />, placeholder: 'Page or name' }}
    />
  );
}
